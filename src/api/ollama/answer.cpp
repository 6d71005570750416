#include "api/ollama/answer.h"

#include <utility>

#include "api/ollama/errors.h"
#include "api/ollama/keep_alive.h"
#include "http/sse.h"

namespace penstock::api::ollama {

using base::Json;

Answer::Answer(std::shared_ptr<http::Exchange> exchange, Encoder encoder, AnswerOptions options)
    : exchange_(std::move(exchange)), encoder_(std::move(encoder)), options_(std::move(options)) {}

void Answer::on_event(chat::Event event) {
  std::visit([this](auto& value) { on(value); }, event);
}

void Answer::write(const Json& object) {
  stream_->write(http::ndjson_line(object.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

void Answer::write_said(Said said) {
  said.has_logprobs = options_.logprobs && !said.logprobs.empty();
  write(encoder_.chunk(now_text(), said));
}

void Answer::on(const chat::Started& started) {
  started_ = Clock::now();
  if (options_.on_started) options_.on_started();
  if (!options_.stream) return;
  http::Response head = http::ndjson_head();
  head.headers.push_back({"x-penstock-executor", started.executor});
  head.headers.insert(head.headers.end(), options_.headers.begin(), options_.headers.end());
  stream_ = exchange_->start_stream(std::move(head), http::ndjson_options());
}

void Answer::on(chat::TextDelta& delta) {
  if (!stream_) return choice_.add(std::move(delta));
  Said said;
  said.text = std::move(delta.text);
  said.logprobs = std::move(delta.logprobs);
  write_said(std::move(said));
}

void Answer::on(chat::ReasoningDelta& delta) {
  if (!options_.shows_reasoning) return;
  if (!stream_) return choice_.add(std::move(delta));
  Said said;
  said.thinking = std::move(delta.text);
  said.logprobs = std::move(delta.logprobs);
  write_said(std::move(said));
}

/// A call goes out whole: its arguments are an object here.
void Answer::on(chat::ToolCallFinished& finished) {
  const auto index = static_cast<size_t>(finished.call);
  choice_.add(std::move(finished));
  if (!stream_) return;
  Said said;
  said.calls = {choice_.calls[index]};
  write_said(std::move(said));
}

/// A call that the answer broke off in is left out: `done_reason` says that it did.
Said Answer::whole() {
  Said said;
  if (stream_) return said;
  said.text = std::move(choice_.text);
  said.thinking = std::move(choice_.reasoning);
  for (WholeCall& call : choice_.calls) {
    if (call.is_complete) said.calls.push_back(std::move(call));
  }
  said.logprobs = std::move(choice_.logprobs);
  said.has_logprobs = options_.logprobs;
  return said;
}

void Answer::on(const chat::Done& done) {
  const Durations durations{Clock::now() - began_, started_ - began_, done.receipt.prefill_ms,
                            done.receipt.decode_ms};
  const Json last = encoder_.last(now_text(), whole(), finished_, done, durations);
  if (stream_) {
    write(last);
    stream_->finish();
    return;
  }
  http::Response response = http::json_response(200, last);
  response.headers = std::move(options_.headers);
  response.headers.push_back({"x-penstock-executor", done.receipt.executor});
  exchange_->respond(std::move(response));
}

void Answer::on(const chat::Failure& failure) {
  if (stream_) {
    write(error_json(failure.error));
    stream_->finish();
    return;
  }
  http::Response response = error_response(failure.error);
  response.headers.insert(response.headers.end(), options_.headers.begin(), options_.headers.end());
  exchange_->respond(std::move(response));
}

}  // namespace penstock::api::ollama
