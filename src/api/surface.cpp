#include "api/surface.h"

#include <utility>

#include "api/trace.h"
#include "base/random_id.h"

namespace penstock::api {
namespace {

/// Field names for a header: those that are plain words, joined; at most a few hundred bytes.
std::string header_list(const std::vector<std::string>& names) {
  constexpr size_t kMaxBytes = 400;
  std::string joined;
  for (const std::string& name : names) {
    std::string clean;
    for (const char c : name.substr(0, 64)) clean += c > ' ' && c < 127 && c != ',' ? c : '?';
    if (joined.size() + clean.size() > kMaxBytes) return joined + ", ...";
    joined += (joined.empty() ? "" : ", ") + clean;
  }
  return joined;
}

}  // namespace

void Surface::add(std::string_view method, std::string_view pattern, PlainHandler handle) {
  // The transport knows an error's code and not its word, so errors are answered here.
  router_.add(method, pattern,
              [handle = std::move(handle), shape = shape_](const http::Request& request,
                                                           const ExchangePtr& exchange) {
                try {
                  handle(request, exchange);
                } catch (const base::Error& error) {
                  exchange->respond(shape(error));
                }
              });
}

void Surface::add_generating(std::string_view method, std::string_view pattern, std::string_view name,
                             GeneratingHandler handle) {
  router_.add(method, pattern,
              [handle = std::move(handle), shape = shape_, name = std::string(name), &service = service_](
                  const http::Request& request, const ExchangePtr& exchange) {
                const chat::Origin origin = origin_of(request, name);
                try {
                  service.require_room(origin);
                  handle(request, origin, exchange);
                } catch (const base::Error& error) {
                  http::Response response = shape(error);
                  response.headers.push_back({"x-request-id", origin.request_id});
                  exchange->respond(std::move(response));
                }
              });
}

std::vector<http::Header> answer_headers(const chat::Origin& origin, const std::vector<std::string>& ignored,
                                         Ignored& counters) {
  std::vector<http::Header> headers = {{"x-request-id", origin.request_id}};
  if (!ignored.empty()) {
    counters.fields += ignored.size();
    headers.push_back({"x-penstock-ignored", header_list(ignored)});
  }
  return headers;
}

void submit(serve::Service& service, chat::Request request, std::shared_ptr<chat::EventSink> sink,
            const ExchangePtr& exchange) {
  const auto generation = service.submit(std::move(request), std::move(sink));
  exchange->on_disconnect([generation] { generation->cancel(serve::Generation::Why::kDisconnected); });
}

std::string make_id(std::string_view prefix) {
  return base::random_id(prefix);
}

}  // namespace penstock::api
