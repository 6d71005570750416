#include "api/admin/routes.h"

namespace penstock::api::admin {

void add_routes(http::Router& router, serve::Service& service) {
  add_cache_routes(router, service);
  add_lifecycle_routes(router, service);
  add_model_routes(router, service);
  add_session_routes(router, service);
}

}  // namespace penstock::api::admin
