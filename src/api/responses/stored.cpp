#include "api/responses/stored.h"

#include <utility>

#include "api/openai/errors.h"
#include "api/page.h"
#include "api/query.h"
#include "base/error.h"

namespace penstock::api::responses {
namespace {

using base::Code;
using base::Error;
using base::Json;
using serve::StoredResponse;

const std::string& id_of(const http::Request& request) {
  return request.params.at("id");
}

Json object_of(StoredResponse response) {
  Json object = std::move(response.body);
  object["output"] = std::move(response.output);
  return object;
}

void respond(const ExchangePtr& exchange, const Json& body) {
  exchange->respond(http::json_response(200, body));
}

/// Answers with what `use` does with the response, or with the error.
auto with_found(const ExchangePtr& exchange, std::function<void(StoredResponse)> use) {
  return [exchange, use = std::move(use)](std::variant<StoredResponse, Error> found) {
    try {
      if (const auto* error = std::get_if<Error>(&found)) throw *error;
      use(std::move(std::get<StoredResponse>(found)));
    } catch (const Error& error) {
      exchange->respond(openai::error_response(error));
    }
  };
}

void respond_deleted(const ExchangePtr& exchange, const std::string& id) {
  respond(exchange, {{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace

void Stored::retrieve(const http::Request& request, const ExchangePtr& exchange) const {
  const Query query(request);
  const bool stream = query.boolean("stream").value_or(false);
  const int64_t after = query.integer("starting_after", 0, INT64_MAX).value_or(-1);
  if (const auto run = parts_->live.find(id_of(request))) {
    if (stream) return run->follow(exchange, after);
    return respond(exchange, run->object());
  }
  parts_->store.find(
      id_of(request),
      with_found(exchange, [exchange, stream, after, options = parts_->stream](StoredResponse response) {
        if (!stream) return respond(exchange, object_of(std::move(response)));
        if (response.events.empty()) {
          throw Error(
              Code::kInvalidRequest,
              "[responses.retrieve] expected a response whose events are kept: one that was created with "
              "background and stream, and ended by itself; got another",
              "stream");
        }
        start_replay(*exchange, EventLog::frames_after(response.events, after), options)->finish();
      }));
}

void Stored::erase(const http::Request& request, const ExchangePtr& exchange) const {
  const std::string id = id_of(request);
  const auto erase_stored = [parts = parts_, id, exchange] {
    parts->store.erase(id, [id, exchange](const std::optional<Error>& error) {
      if (error) return exchange->respond(openai::error_response(*error));
      respond_deleted(exchange, id);
    });
  };
  const auto run = parts_->live.find(id);
  if (run == nullptr) return erase_stored();
  run->on_end([erase_stored](const Json&) { erase_stored(); });
  parts_->service.cancel(id);
}

void Stored::cancel(const http::Request& request, const ExchangePtr& exchange) const {
  const std::string id = id_of(request);
  if (const auto run = parts_->live.find(id)) {
    run->on_end([exchange](const Json& object) { respond(exchange, object); });
    parts_->service.cancel(id);
    return;
  }
  parts_->store.find(
      id, with_found(exchange, [exchange](StoredResponse response) {
        if (!response.is_background) {
          throw Error(
              Code::kInvalidRequest,
              "[responses.cancel] expected a response that was created with background true; got another",
              "response_id");
        }
        respond(exchange, object_of(std::move(response)));
      }));
}

void Stored::input_items(const http::Request& request, const ExchangePtr& exchange) const {
  parts_->store.find(id_of(request),
                     with_found(exchange, [exchange, query = Query(request)](StoredResponse response) {
                       respond(exchange, page_of(std::move(response.input), query));
                     }));
}

}  // namespace penstock::api::responses
