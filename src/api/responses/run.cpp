#include "api/responses/run.h"

#include <utility>

#include "api/openai/encode.h"
#include "api/openai/errors.h"
#include "base/log.h"
#include "base/unix_time.h"
#include "http/sse.h"

namespace penstock::api::responses {
namespace {

using base::Code;
using base::Error;
using base::Json;

/// The codes that this API has for a response that failed.
Json error_json(const Error& error) {
  const bool is_prompt = error.code() == Code::kInvalidRequest || error.code() == Code::kContextLength ||
                         error.code() == Code::kUnsupported;
  const char* code = is_prompt                           ? "invalid_prompt"
                     : error.code() == Code::kOverloaded ? "rate_limit_exceeded"
                                                         : "server_error";
  return {{"code", code}, {"message", error.text()}};
}

Json usage_json(const chat::Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

Json head_of(const RunOptions& options) {
  Json head = {{"id", options.id},
               {"object", "response"},
               {"created_at", options.created},
               {"status", "queued"},
               {"completed_at", nullptr},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"model", options.model},
               {"output", Json::array()},
               {"usage", nullptr}};
  for (const auto& [name, value] : options.settings.items()) head[name] = value;
  return head;
}

}  // namespace

Run::Run(RunOptions options, ExchangePtr exchange, serve::ResponseStore& store)
    : options_(std::move(options)),
      store_(store),
      exchange_(std::move(exchange)),
      head_(head_of(options_)),
      output_(
          options_.names, options_.output, [](std::string_view prefix) { return make_id(prefix); },
          options_.stream ? Output::Tell([this](std::string_view type, Json fields) {
            log_.tell(type, std::move(fields));
          })
                          : nullptr),
      log_(options_.stream && options_.background),
      status_("queued"),
      is_accepted_(!options_.background) {}

Json Run::object_locked() const {
  Json object = head_;
  object["status"] = status_;
  for (Json& item : output_.items()) object["output"].push_back(std::move(item));
  return object;
}

Json Run::object() const {
  const std::lock_guard lock(mutex_);
  return object_locked();
}

serve::StoredResponse Run::record_locked() const {
  serve::StoredResponse record;
  record.id = options_.id;
  record.previous_id = options_.previous_id;
  record.status = status_;
  record.is_background = options_.background;
  record.created = options_.created;
  record.body = head_;
  record.body["status"] = status_;
  record.input = options_.input;
  record.output = output_.items();
  record.events = log_.lines();
  return record;
}

serve::StoredResponse Run::record() const {
  const std::lock_guard lock(mutex_);
  return record_locked();
}

void Run::on_end(OnEnd on_end) {
  const std::lock_guard lock(mutex_);
  if (has_ended_) return on_end(object_locked());
  on_end_.push_back(std::move(on_end));
}

void Run::follow(const ExchangePtr& exchange, int64_t starting_after) {
  const std::lock_guard lock(mutex_);
  if (!log_.keeps()) {
    throw Error(
        Code::kInvalidRequest,
        "[responses.follow] expected a response that was created with background and stream; got another",
        "stream");
  }
  auto stream = start_replay(*exchange, log_.frames_after(starting_after), options_.stream_options);
  if (has_ended_) return stream->finish();
  log_.add_stream(std::move(stream));
}

/// Whoever streams hears of it from here on.
void Run::begin(std::string_view status) {
  status_ = status;
  if (options_.stream) {
    http::Response head = http::sse_head();
    head.headers.insert(head.headers.end(), options_.headers.begin(), options_.headers.end());
    log_.add_stream(exchange_->start_stream(std::move(head), options_.stream_options));
    exchange_.reset();
  }
  tell_response("response.created");
}

void Run::tell_response(std::string_view type) {
  if (options_.stream) log_.tell(type, {{"response", object_locked()}});
}

void Run::accept() {
  const std::lock_guard lock(mutex_);
  is_accepted_ = true;
  begin("queued");
  tell_response("response.queued");
  if (exchange_ != nullptr) respond();
  for (chat::Event& event : early_) handle(event);
  early_.clear();
}

void Run::on_event(chat::Event event) {
  const std::lock_guard lock(mutex_);
  if (is_accepted_) return handle(event);
  early_.push_back(std::move(event));
}

/// What a defect breaks off has failed; nobody would end it else.
void Run::handle(chat::Event& event) {
  try {
    std::visit([this](auto& value) { on(value); }, event);
  } catch (const std::exception& error) {
    base::log::error("a response could not be made: {}", error.what());
    on(chat::Failure{
        Error(Code::kInternal, std::string("[responses.run] expected an answer; got ") + error.what())});
  }
}

void Run::on(const chat::Started& started) {
  has_started_ = true;
  head_["model"] = started.model;
  options_.headers.push_back({"x-penstock-executor", started.executor});
  if (options_.background) {
    status_ = "in_progress";
  } else {
    begin("in_progress");
  }
  tell_response("response.in_progress");
}

void Run::on(const chat::Finished& finished) {
  is_cut_ = finished.reason == chat::FinishReason::kLength;
}

void Run::on(const chat::Done& done) {
  output_.finish(!is_cut_);
  head_["usage"] = usage_json(done.usage);
  head_["penstock"] = openai::receipt_json(done.receipt);
  if (is_cut_) {
    head_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    return end("incomplete", "response.incomplete");
  }
  head_["completed_at"] = base::unix_seconds();
  end("completed", "response.completed");
}

void Run::on(const chat::Failure& failure) {
  // Nobody has heard of the response yet: its request is what failed.
  if (!options_.background && (!options_.stream || !has_started_)) return refuse(failure.error);
  output_.finish(false);
  const bool is_cancelled = failure.error.code() == Code::kCancelled;
  if (!is_cancelled) head_["error"] = error_json(failure.error);
  end(is_cancelled ? "cancelled" : "failed", "response.failed");
}

void Run::refuse(const Error& error) {
  http::Response response = openai::error_response(error);
  response.headers.insert(response.headers.end(), options_.headers.begin(), options_.headers.end());
  exchange_->respond(std::move(response));
  exchange_.reset();
}

/// The last event is kept with the others, and told when all is stored.
void Run::end(std::string_view status, std::string_view event) {
  status_ = status;
  if (!options_.store) return conclude(event);
  save(event);
}

void Run::save(std::string_view event) {
  serve::StoredResponse record = record_locked();
  if (log_.keeps()) record.events += log_.next_line(event, {{"response", object_locked()}});
  store_.save(std::move(record),
              [self = shared_from_this(), event = std::string(event)](const std::optional<Error>& error) {
                const std::lock_guard lock(self->mutex_);
                if (!error) return self->conclude(event);
                base::log::error("a response is not stored: {}", error->text());
                if (self->exchange_ != nullptr) return self->refuse(*error);
                self->status_ = "failed";
                self->head_["error"] = error_json(*error);
                self->conclude("response.failed");
              });
}

void Run::conclude(std::string_view event) {
  has_ended_ = true;
  tell_response(event);
  log_.finish();
  if (exchange_ != nullptr) respond();
  for (const OnEnd& on_end : std::exchange(on_end_, {})) on_end(object_locked());
}

void Run::respond() {
  http::Response response = http::json_response(200, object_locked());
  response.headers = options_.headers;
  exchange_->respond(std::move(response));
  exchange_.reset();
}

}  // namespace penstock::api::responses
