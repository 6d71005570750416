// A server on a free loopback port with routes that show how a request ended. Shared by the HTTP tests.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "http/server.h"
#include "http/sse.h"
#include "unit/http/raw_client.h"

namespace penstock::http::test {

/// What the handlers saw and hold, for the test to look at and act on.
struct Seen {
  std::mutex mutex;
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Exchange>> held;
  std::vector<std::shared_ptr<Stream>> streams;
  std::atomic<int> disconnects{0};
  StreamOptions stream_options;

  void note(const Request& request) {
    const std::lock_guard lock(mutex);
    requests.push_back(request);
  }
  std::shared_ptr<Exchange> exchange(size_t index) {
    const std::lock_guard lock(mutex);
    return index < held.size() ? held[index] : nullptr;
  }
  std::shared_ptr<Stream> stream(size_t index) {
    const std::lock_guard lock(mutex);
    return index < streams.size() ? streams[index] : nullptr;
  }
  size_t count() {
    const std::lock_guard lock(mutex);
    return requests.size();
  }
  Request request(size_t index) {
    const std::lock_guard lock(mutex);
    return requests.at(index);
  }
};

class HttpTest : public ::testing::Test {
 protected:
  void TearDown() override {
    server_.reset();
    const std::lock_guard lock(seen_.mutex);
    seen_.held.clear();
    seen_.streams.clear();
  }

  /// Routes: POST /echo answers the body, GET /hello a text, GET /hold keeps the exchange, GET /stream keeps
  /// a stream.
  void start() {
    Router router;
    router.add("POST", "/echo", [this](const Request& request, const std::shared_ptr<Exchange>& exchange) {
      seen_.note(request);
      exchange->respond({200, {}, request.body, "text/plain"});
    });
    router.add("GET", "/hello", [this](const Request& request, const std::shared_ptr<Exchange>& exchange) {
      seen_.note(request);
      exchange->respond({200, {}, "hello " + request.query, "text/plain"});
    });
    router.add("GET", "/hold", [this](const Request& request, const std::shared_ptr<Exchange>& exchange) {
      exchange->on_disconnect([this] { ++seen_.disconnects; });
      seen_.note(request);
      const std::lock_guard lock(seen_.mutex);
      seen_.held.push_back(exchange);
    });
    router.add("GET", "/stream", [this](const Request& request, const std::shared_ptr<Exchange>& exchange) {
      exchange->on_disconnect([this] { ++seen_.disconnects; });
      seen_.note(request);
      const std::lock_guard lock(seen_.mutex);
      seen_.streams.push_back(exchange->start_stream(sse_head(), seen_.stream_options));
    });
    router.add("GET", "/models/{id...}",
               [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
                 exchange->respond({200, {}, request.path + " " + request.params.at("id"), "text/plain"});
               });
    router.add("GET", "/throw/{what}", [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
      const std::string what = request.params.at("what");
      if (what == "error")
        throw base::Error(base::Code::kInvalidRequest, "[test.throw] expected less; got more", "a.b");
      if (what == "other") throw std::runtime_error("secret");
      if (what == "late") {
        exchange->start_stream(sse_head())->write("data: begun\n\n");
        throw std::runtime_error("secret");
      }
    });
    server_ = std::make_unique<Server>(options_, std::move(router));
    server_->start();
  }

  static std::string get(const std::string& path, const std::string& more = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: test\r\n" + more + "\r\n";
  }
  static std::string post(const std::string& body, const std::string& more = "") {
    return "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           more + "\r\n" + body;
  }
  bool all_closed() {
    return eventually([&] { return server_->open_connections() == 0; });
  }
  bool none_active() {
    return eventually([&] { return server_->active_requests() == 0; });
  }

  Seen seen_;
  ServerOptions options_;
  std::unique_ptr<Server> server_;
};

}  // namespace penstock::http::test
