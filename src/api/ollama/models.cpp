// What is said of models: /api/tags, /api/ps, /api/show, /api/version, and the root.
#include <utility>

#include "api/body.h"
#include "api/ollama/decode.h"
#include "api/ollama/fields.h"
#include "api/ollama/model_json.h"
#include "api/ollama/names.h"
#include "api/ollama/routes.h"
#include "api/ollama/worker.h"
#include "api/trace.h"

namespace penstock::api::ollama {
namespace {

using base::Json;

/// Of the API that this surface follows: clients ask it for what they may use.
constexpr const char* kApiVersion = "0.12.6";

void tags(const ContextPtr& context, const ExchangePtr& exchange) {
  answer_on_worker(context->library, exchange, [context] {
    Json list = Json::array();
    for (const library::Listing& model : context->library.list()) list.push_back(tag_json(model));
    return http::json_response(200, {{"models", std::move(list)}});
  });
}

/// A model that is loaded is listed once, under its own name.
void running(const ContextPtr& context, const ExchangePtr& exchange) {
  answer_on_worker(context->library, exchange, [context] {
    Json list = Json::array();
    const auto now = std::chrono::system_clock::now();
    for (const library::Listing& model : context->library.list()) {
      if (model.card.loaded && model.name == model.card.id) list.push_back(running_json(model, now));
    }
    return http::json_response(200, {{"models", std::move(list)}});
  });
}

void show(const ContextPtr& context, const http::Request& request, const ExchangePtr& exchange) {
  const Json body = parse_body(request);
  const auto unknown = unknown_fields(body, show_fields());
  const Named named = resolve(context->service, read_model(Reader(body)));
  auto headers = answer_headers(origin_of(request, "ollama"), unknown, context->ignored);
  answer_on_worker(context->library, exchange, [context, name = named.name, headers = std::move(headers)] {
    http::Response response = http::json_response(200, show_json(context->library.find(name)));
    response.headers = headers;
    return response;
  });
}

http::Response root() {
  http::Response response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = "Ollama is running";
  return response;
}

}  // namespace

void add_model_routes(Surface& surface, const ContextPtr& context) {
  surface.add("GET", "/api/tags",
              [context](const auto&, const ExchangePtr& exchange) { tags(context, exchange); });
  surface.add("GET", "/api/ps",
              [context](const auto&, const ExchangePtr& exchange) { running(context, exchange); });
  surface.add("POST", "/api/show", [context](const auto& request, const ExchangePtr& exchange) {
    show(context, request, exchange);
  });
  surface.add("GET", "/api/version", [](const auto&, const ExchangePtr& exchange) {
    exchange->respond(http::json_response(200, {{"version", kApiVersion}}));
  });
  surface.add("GET", "/", [](const auto&, const ExchangePtr& exchange) { exchange->respond(root()); });
  for (const char* path : {"/api/embed", "/api/embeddings"}) {
    surface.add("POST", path, [](const auto&, const ExchangePtr& exchange) {
      exchange->respond(http::json_response(501, {{"error", "this server has no embedding models yet"}}));
    });
  }
}

}  // namespace penstock::api::ollama
