#include "api/openai/answer.h"

#include <utility>

#include "api/openai/errors.h"
#include "http/sse.h"

namespace penstock::api::openai {

using base::Json;

Answer::Answer(std::shared_ptr<http::Exchange> exchange, std::unique_ptr<Encoder> encoder,
               AnswerOptions options)
    : exchange_(std::move(exchange)), encoder_(std::move(encoder)), options_(std::move(options)) {}

void Answer::on_event(chat::Event event) {
  std::visit([this](auto& value) { on(value); }, event);
}

void Answer::write(const Json& chunk) {
  stream_->write(http::sse_frame(chunk.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

void Answer::write_text(const chat::TextDelta& delta) {
  if (encoder_->logprobs()) return write(encoder_->delta(options_.head, delta));
  std::optional<TextFrame>& frame = frames_[static_cast<size_t>(delta.choice)];
  if (!frame) {
    frame.emplace([&](const std::string& text) {
      return encoder_->delta(options_.head, {delta.choice, text, {}});
    });
  }
  stream_->write(frame->event(delta.text));
}

void Answer::on(const chat::Started& started) {
  options_.head.model = started.model;
  choices_.resize(static_cast<size_t>(started.choices));
  if (!options_.stream) return;
  frames_.resize(choices_.size());
  http::Response head = http::sse_head();
  head.headers.push_back({"x-penstock-executor", started.executor});
  head.headers.insert(head.headers.end(), options_.headers.begin(), options_.headers.end());
  stream_ = exchange_->start_stream(std::move(head), options_.stream_options);
  for (const Json& chunk : encoder_->started(options_.head, started.choices)) write(chunk);
}

void Answer::on(chat::TextDelta& delta) {
  if (stream_) return write_text(delta);
  choice(delta.choice).add(std::move(delta));
}

void Answer::on(chat::ReasoningDelta& delta) {
  if (stream_) return write(encoder_->reasoning(options_.head, delta));
  choice(delta.choice).add(std::move(delta));
}

void Answer::on(chat::ToolCallStarted& started) {
  if (stream_) return write(encoder_->call_started(options_.head, started));
  choice(started.choice).add(std::move(started));
}

void Answer::on(chat::ToolCallDelta& delta) {
  if (stream_) return write(encoder_->call_delta(options_.head, delta));
  choice(delta.choice).add(std::move(delta));
}

void Answer::on(chat::ToolCallFinished& finished) {
  if (!stream_) choice(finished.choice).add(finished);
}

void Answer::on(chat::Finished& finished) {
  ++n_finished_;
  if (!stream_) return choice(finished.choice).add(std::move(finished));
  if (n_finished_ < choices_.size()) return write(encoder_->finished(options_.head, finished));
  last_finished_ = std::move(finished);
}

void Answer::on(const chat::Done& done) {
  if (!stream_) return respond_whole(done);
  Json chunk = encoder_->finished(options_.head, *last_finished_);
  chunk["penstock"] = receipt_json(done.receipt);
  write(chunk);
  if (options_.head.include_usage) write(encoder_->usage_chunk(options_.head, done.usage));
  stream_->write(http::sse_frame("[DONE]"));
  stream_->finish();
}

void Answer::respond_whole(const chat::Done& done) {
  Json body = encoder_->whole(options_.head, choices_);
  body["usage"] = usage_json(done.usage);
  body["penstock"] = receipt_json(done.receipt);
  http::Response response = http::json_response(200, body);
  response.headers = std::move(options_.headers);
  response.headers.push_back({"x-penstock-executor", done.receipt.executor});
  response.headers.push_back({"x-penstock-batch-width", std::to_string(done.receipt.batch_width)});
  exchange_->respond(std::move(response));
}

void Answer::on(const chat::Failure& failure) {
  if (stream_) {
    write(error_envelope(failure.error));
    stream_->finish();
    return;
  }
  http::Response response = error_response(failure.error);
  response.headers.insert(response.headers.end(), options_.headers.begin(), options_.headers.end());
  exchange_->respond(std::move(response));
}

}  // namespace penstock::api::openai
