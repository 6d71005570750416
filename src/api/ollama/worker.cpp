#include "api/ollama/worker.h"

#include <utility>

#include "api/ollama/errors.h"

namespace penstock::api::ollama {

base::Error error_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const base::Error& error) {
    return error;
  } catch (const std::exception& error) {
    return {base::Code::kInternal, std::string("[api.ollama] an internal error: ") + error.what()};
  }
}

void answer_on_worker(library::Library& library, const ExchangePtr& exchange,
                      std::function<http::Response()> make) {
  library.post([exchange, make = std::move(make)] {
    try {
      exchange->respond(make());
    } catch (const std::exception&) {
      exchange->respond(error_response(error_of(std::current_exception())));
    }
  });
}

}  // namespace penstock::api::ollama
