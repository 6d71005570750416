#include "api/anthropic/answer.h"

#include <utility>

#include "api/anthropic/encode.h"
#include "api/anthropic/errors.h"
#include "http/sse.h"

namespace penstock::api::anthropic {

Answer::Answer(std::shared_ptr<http::Exchange> exchange, std::shared_ptr<const Signer> signer,
               AnswerOptions options)
    : exchange_(std::move(exchange)),
      signer_(std::move(signer)),
      options_(std::move(options)),
      frames_([this](std::string_view frame) { stream_->write(frame); }),
      content_(*signer_, options_.shows_thinking,
               options_.stream ? static_cast<BlockTarget&>(frames_) : whole_) {}

void Answer::on_event(chat::Event event) {
  std::visit([this](const auto& value) { on(value); }, event);
}

void Answer::on(const chat::Started& started) {
  model_ = started.model;
  if (!options_.stream) return;
  http::Response head = http::sse_head();
  head.headers.push_back({"x-penstock-executor", started.executor});
  head.headers.insert(head.headers.end(), options_.headers.begin(), options_.headers.end());
  stream_ = exchange_->start_stream(std::move(head), options_.stream_options);
  stream_->write(frame(message_start(options_.id, started)));
}

void Answer::on(const chat::Done& done) {
  content_.finish();
  if (!stream_) return respond_whole(done);
  stream_->write(frame(message_delta(finished_, done.usage)));
  stream_->write(frame({{"type", "message_stop"}}));
  stream_->finish();
}

void Answer::respond_whole(const chat::Done& done) {
  http::Response response = http::json_response(
      200, message_json(options_.id, model_, whole_.take(), &finished_, usage_json(done.usage)));
  response.headers = std::move(options_.headers);
  response.headers.push_back({"x-penstock-executor", done.receipt.executor});
  response.headers.push_back({"x-penstock-batch-width", std::to_string(done.receipt.batch_width)});
  exchange_->respond(std::move(response));
}

void Answer::on(const chat::Failure& failure) {
  if (stream_) {
    stream_->write(frame(error_envelope(failure.error)));
    stream_->finish();
    return;
  }
  http::Response response = error_response(failure.error);
  response.headers.insert(response.headers.end(), options_.headers.begin(), options_.headers.end());
  exchange_->respond(std::move(response));
}

}  // namespace penstock::api::anthropic
