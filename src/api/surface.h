// What is the same on every API surface: routes whose errors come in the surface's own shape, the headers of
// an answer, and ids. Handlers run on io threads: they decode, submit and return.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/event.h"
#include "chat/request.h"
#include "http/exchange.h"
#include "http/router.h"
#include "serve/service.h"

namespace penstock::api {

/// Counters of what the surfaces let through without knowing it. Thread-safe.
struct Ignored {
  std::atomic<uint64_t> fields = 0;
};

/// An error as a surface's clients know it.
using ErrorShape = http::Response (*)(const base::Error& error);

using ExchangePtr = std::shared_ptr<http::Exchange>;
using PlainHandler = std::function<void(const http::Request&, const ExchangePtr&)>;
using GeneratingHandler = std::function<void(const http::Request&, chat::Origin, const ExchangePtr&)>;

class Surface {
 public:
  /// All must outlive the router.
  Surface(http::Router& router, serve::Service& service, Ignored& ignored, ErrorShape shape)
      : router_(router), service_(service), ignored_(ignored), shape_(shape) {}

  void add(std::string_view method, std::string_view pattern, PlainHandler handle);

  /// A route that submits requests: it refuses while there is no room, before the body is read, and a refusal
  /// carries the id under which it was logged. `name` is the surface's in logs and metrics.
  void add_generating(std::string_view method, std::string_view pattern, std::string_view name,
                      GeneratingHandler handle);

 private:
  http::Router& router_;
  serve::Service& service_;
  Ignored& ignored_;
  const ErrorShape shape_;
};

/// The headers of an answer: its x-request-id and, counted, the fields of the request that nothing knew.
std::vector<http::Header> answer_headers(const chat::Origin& origin, const std::vector<std::string>& ignored,
                                         Ignored& counters);

/// Submits and cancels with the client's connection.
void submit(serve::Service& service, chat::Request request, std::shared_ptr<chat::EventSink> sink,
            const ExchangePtr& exchange);

/// The prefix and 24 random hexadecimal digits.
std::string make_id(std::string_view prefix);

}  // namespace penstock::api
