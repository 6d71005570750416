#include "api/models.h"

#include <memory>

#include "api/anthropic/errors.h"
#include "api/anthropic/models.h"
#include "api/error_shape.h"
#include "api/openai/models.h"
#include "http/exchange.h"

namespace penstock::api {
namespace {

using ModelExchange = std::shared_ptr<http::Exchange>;

void list(const serve::Service& service, const http::Request& request, const ModelExchange& exchange) {
  const auto cards = service.models();
  exchange->respond(http::json_response(
      200, anthropic::is_own(request) ? anthropic::models_json(cards) : openai::models_json(cards)));
}

void show(const serve::Service& service, const http::Request& request, const ModelExchange& exchange) {
  try {
    const serve::ModelCard card = service.model(request.params.at("id"));
    exchange->respond(http::json_response(
        200, anthropic::is_own(request) ? anthropic::model_json(card) : openai::model_json(card)));
  } catch (const base::Error& error) {
    exchange->respond(error_response(error, request));
  }
}

}  // namespace

void add_model_routes(http::Router& router, const serve::Service& service) {
  router.add("GET", "/v1/models", [&service](const http::Request& request, const ModelExchange& exchange) {
    list(service, request, exchange);
  });
  router.add("GET", "/v1/models/{id...}",
             [&service](const http::Request& request, const ModelExchange& exchange) {
               show(service, request, exchange);
             });
}

}  // namespace penstock::api
