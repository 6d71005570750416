#include "api/ollama/routes.h"

#include <utility>

#include "api/ollama/errors.h"

namespace penstock::api::ollama {

void add_routes(http::Router& router, Context context) {
  const auto shared = std::make_shared<const Context>(std::move(context));
  Surface surface(router, shared->service, shared->ignored, error_response);
  add_generating_routes(surface, shared);
  add_model_routes(surface, shared);
  add_change_routes(surface, shared);
  add_blob_routes(router, surface, shared);
}

}  // namespace penstock::api::ollama
