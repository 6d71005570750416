#include <exception>
#include <optional>
#include <string>

#include "api/admin/body.h"
#include "api/admin/routes.h"
#include "api/reader.h"
#include "base/json.h"

namespace penstock::api::admin {
namespace {

struct Order {
  std::string id;
  std::optional<bool> pin;
};

Order read_order(serve::Service& service, const base::Json& body) {
  const Reader reader(body);
  const auto name = reader.string("model");
  if (!name) {
    throw base::Error(base::Code::kInvalidRequest, "[api.models] expected the name of a model; got none",
                      "model");
  }
  return {service.pool().id_of(*name), reader.boolean("pin")};
}

/// What the model is now, or why it is not what it was to be.
void answer_model(serve::Service& service, const Exchange& exchange, const std::string& id,
                  const std::exception_ptr& error) {
  try {
    if (error != nullptr) std::rethrow_exception(error);
    const serve::ModelCard card = service.model(id);
    exchange->respond(
        http::json_response(200, {{"model", id}, {"loaded", card.loaded}, {"pinned", card.pinned}}));
  } catch (const base::Error& why) {
    exchange->respond(openai::error_response(why));
  } catch (const std::exception& why) {
    exchange->respond(openai::error_response(base::Error(
        base::Code::kInternal, std::string("[api.models] expected the model; got ") + why.what())));
  }
}

}  // namespace

void add_model_routes(http::Router& router, serve::Service& service) {
  router.add("POST", "/v1/models/load",
             guarded([&service](const http::Request& request, const Exchange& exchange) {
               const Order order = read_order(service, read_body(request, {"model", "pin"}));
               service.pool().load(order.id, order.pin,
                                   [&service, exchange, id = order.id](const std::exception_ptr& error) {
                                     answer_model(service, exchange, id, error);
                                   });
             }));
  router.add("POST", "/v1/models/unload",
             guarded([&service](const http::Request& request, const Exchange& exchange) {
               const Order order = read_order(service, read_body(request, {"model"}));
               service.pool().unload(order.id,
                                     [&service, exchange, id = order.id](const std::exception_ptr& error) {
                                       answer_model(service, exchange, id, error);
                                     });
             }));
}

}  // namespace penstock::api::admin
