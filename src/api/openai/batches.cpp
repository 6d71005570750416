#include "api/openai/batches.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/body.h"
#include "api/metadata.h"
#include "api/openai/errors.h"
#include "api/openai/fields.h"
#include "api/page.h"
#include "api/reader.h"
#include "api/trace.h"
#include "base/error.h"
#include "http/local_exchange.h"

namespace penstock::api::openai {
namespace {

using base::Error;
using base::Json;
using jobs::Batch;

constexpr std::array<std::string_view, 3> kEndpoints = {"/v1/chat/completions", "/v1/completions",
                                                        "/v1/responses"};
Json or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json batch_json(const Batch& batch) {
  Json json = {{"id", batch.id},
               {"object", "batch"},
               {"endpoint", batch.endpoint},
               {"errors", nullptr},
               {"input_file_id", batch.input_file_id},
               {"completion_window", batch.completion_window},
               {"status", batch.status},
               {"output_file_id", or_null(batch.output_file_id)},
               {"error_file_id", or_null(batch.error_file_id)},
               {"created_at", batch.created}};
  for (const char* name : {"in_progress_at", "expires_at", "finalizing_at", "completed_at", "failed_at",
                           "expired_at", "cancelling_at", "cancelled_at"})
    json[name] = batch.times.contains(name) ? batch.times[name] : Json();
  json["request_counts"] = {{"total", batch.total}, {"completed", batch.completed}, {"failed", batch.failed}};
  json["metadata"] = batch.metadata;
  if (!batch.errors.empty()) json["errors"] = {{"object", "list"}, {"data", batch.errors}};
  return json;
}

Batch decode_batch(const Json& body) {
  const Reader reader(body);
  Batch batch;
  batch.input_file_id = reader.string("input_file_id").value_or("");
  if (batch.input_file_id.empty()) reader.reject("input_file_id", "the id of an uploaded file");
  batch.endpoint = reader.string("endpoint").value_or("");
  if (std::find(kEndpoints.begin(), kEndpoints.end(), batch.endpoint) == kEndpoints.end())
    reader.reject("endpoint", "/v1/chat/completions, /v1/completions or /v1/responses");
  batch.completion_window = reader.string("completion_window").value_or("");
  if (batch.completion_window != "24h") reader.reject("completion_window", "24h");
  batch.metadata = read_metadata(reader);
  return batch;
}

auto answer(const ExchangePtr& exchange, std::vector<http::Header> headers = {}) {
  return [exchange, headers = std::move(headers)](const std::variant<Batch, Error>& result) {
    const auto* error = std::get_if<Error>(&result);
    http::Response response = error != nullptr
                                  ? error_response(*error)
                                  : http::json_response(200, batch_json(std::get<Batch>(result)));
    response.headers = headers;
    exchange->respond(std::move(response));
  };
}

void list(jobs::Batches& batches, const http::Request& request, const ExchangePtr& exchange) {
  batches.list([exchange, query = Query(request)](const std::variant<std::vector<Batch>, Error>& listed) {
    try {
      if (const auto* error = std::get_if<Error>(&listed)) throw *error;
      std::vector<Json> items;
      for (const Batch& batch : std::get<std::vector<Batch>>(listed)) items.push_back(batch_json(batch));
      exchange->respond(http::json_response(200, page_of(std::move(items), query)));
    } catch (const Error& error) {
      exchange->respond(error_response(error));
    }
  });
}

jobs::BatchAnswer answer_of(http::Response response) {
  jobs::BatchAnswer answer{
      response.status, std::string(http::find_header(response.headers, "x-request-id")), {}};
  answer.body = Json::parse(response.body, nullptr, false);
  if (answer.body.is_discarded()) answer.body = Json::object();
  return answer;
}

}  // namespace

void add_batch_routes(http::Router& router, serve::Service& service, Ignored& ignored,
                      jobs::Batches& batches) {
  Surface surface(router, service, ignored, error_response);
  surface.add("POST", "/v1/batches",
              [&batches, &ignored](const http::Request& request, const ExchangePtr& exchange) {
                const Json body = parse_body(request);
                const auto unknown = unknown_fields(body, batch_fields());
                auto headers = answer_headers(origin_of(request, "openai_batches"), unknown, ignored);
                batches.create(decode_batch(body), answer(exchange, std::move(headers)));
              });
  surface.add("GET", "/v1/batches", [&batches](const http::Request& request, const ExchangePtr& exchange) {
    list(batches, request, exchange);
  });
  surface.add("GET", "/v1/batches/{id}",
              [&batches](const http::Request& request, const ExchangePtr& exchange) {
                batches.find(request.params.at("id"), answer(exchange));
              });
  surface.add("POST", "/v1/batches/{id}/cancel",
              [&batches](const http::Request& request, const ExchangePtr& exchange) {
                batches.cancel(request.params.at("id"), answer(exchange));
              });
}

jobs::Batches::Runner make_batch_runner(std::shared_ptr<const http::Router> router) {
  return [router = std::move(router)](jobs::BatchCall call, const jobs::Batches::OnAnswer& on_answer) {
    http::Request request;
    request.method = "POST";
    request.path = call.endpoint;
    request.headers = {{"content-type", "application/json"}, {"x-request-id", make_id("req_")}};
    request.body = call.body.dump(-1, ' ', false, Json::error_handler_t::replace);
    http::call_route(*router, std::move(request),
                     [on_answer](http::Response response) { on_answer(answer_of(std::move(response))); });
  };
}

}  // namespace penstock::api::openai
