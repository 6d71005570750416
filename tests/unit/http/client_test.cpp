// The client against servers of our own: redirects, ranges, cancellation, limits.
#include "http/client.h"

#include <future>

#include <unistd.h>

#include "base/error.h"
#include "unit/http/fixture.h"

namespace penstock::http::test {
namespace {

base::Code code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const base::Error& error) {
    return error.code();
  }
  return base::Code::kInternal;
}

class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("no_proxy", "127.0.0.1,localhost", 1);
    other_ = std::make_unique<Server>(ServerOptions{}, routes());
    other_->start();
    ServerOptions options;
    options.unix_socket = ::testing::TempDir() + "penstock_client_" + std::to_string(::getpid());
    unix_path_ = options.unix_socket;
    server_ = std::make_unique<Server>(options, routes());
    server_->start();
  }
  void TearDown() override {
    server_.reset();
    other_.reset();
    streams_.clear();
  }

  Router routes() {
    Router router;
    const auto show = [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
      const std::string text = request.method + " [" + std::string(request.header("Authorization")) + "] [" +
                               std::string(request.header("X-Kept")) + "] " + request.body;
      exchange->respond({200, {{"X-Commit", "abc"}}, text, "text/plain"});
    };
    router.add("GET", "/show", show);
    router.add("POST", "/show", show);
    router.add("GET", "/file", [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
      const std::string whole = "0123456789";
      const std::string range(request.header("Range"));
      if (range.empty()) return exchange->respond({200, {}, whole, "text/plain"});
      const size_t begin = std::stoul(range.substr(6)), dash = range.find('-');
      const size_t end = dash + 1 < range.size() ? std::stoul(range.substr(dash + 1)) : whole.size() - 1;
      exchange->respond({206, {}, whole.substr(begin, end - begin + 1), "text/plain"});
    });
    router.add("GET", "/to", [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
      exchange->respond({302, {{"Location", request.query}, {"X-Linked-Etag", "e1"}}, "moved", "text/plain"});
    });
    router.add("POST", "/to", [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
      exchange->respond({303, {{"Location", request.query}}, "", ""});
    });
    router.add("GET", "/loop", [](const Request&, const std::shared_ptr<Exchange>& exchange) {
      exchange->respond({307, {{"Location", "/loop"}}, "", ""});
    });
    router.add("GET", "/silent", [this](const Request&, const std::shared_ptr<Exchange>& exchange) {
      exchange->on_disconnect([this] { ++lost_; });
      StreamOptions options;
      options.keepalive_ms = 0;
      const std::lock_guard lock(mutex_);
      streams_.push_back(exchange->start_stream({200, {}, "begun", "text/plain"}, options));
    });
    router.add("GET", "/truncated", [](const Request&, const std::shared_ptr<Exchange>& exchange) {
      exchange->start_stream({200, {}, "half", "text/plain"});
    });
    router.add("GET", "/large", [](const Request&, const std::shared_ptr<Exchange>& exchange) {
      exchange->respond({200, {}, std::string(3 << 20, 'z'), "text/plain"});
    });
    return router;
  }

  ClientRequest request(const std::string& path) const {
    ClientRequest request;
    request.url = server_->url() + path;
    request.connect_timeout_ms = request.stall_timeout_ms = 60000;  // a busy machine is not a failure
    return request;
  }

  Client client_;
  std::unique_ptr<Server> server_, other_;
  std::string unix_path_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::atomic<int> lost_{0};
};

TEST_F(ClientTest, GetsPostsAndHeads) {
  const auto got = client_.send(request("/show"));
  EXPECT_EQ(got.last.status, 200);
  EXPECT_EQ(got.last.header("x-commit"), "abc");
  EXPECT_EQ(got.body, "GET [] [] ");
  auto post = request("/show");
  post.method = "POST";
  post.body = "payload";
  post.headers = {{"Authorization", "Bearer k"}, {"X-Kept", "1"}};
  EXPECT_EQ(client_.send(post).body, "POST [Bearer k] [1] payload");
  auto head = request("/file");
  head.method = "HEAD";
  const auto answer = client_.send(head);
  EXPECT_EQ(answer.last.header("Content-Length"), "10");
  EXPECT_EQ(answer.body, "");
  EXPECT_EQ(client_.send(request("/missing")).last.status, 404);
  EXPECT_EQ(server_->open_connections(), 1u);  // kept and used again
}

TEST_F(ClientTest, AsksForRanges) {
  auto range = request("/file");
  range.range_begin = 4;
  EXPECT_EQ(client_.send(range).body, "456789");
  range.range_end = 6;
  const auto answer = client_.send(range);
  EXPECT_EQ(answer.last.status, 206);
  EXPECT_EQ(answer.body, "456");
}

TEST_F(ClientTest, FollowsRedirectsAndKeepsEachHop) {
  auto same = request("/to?/show");
  same.headers = {{"Authorization", "Bearer k"}, {"X-Kept", "1"}};
  const auto answer = client_.send(same);
  EXPECT_EQ(answer.body, "GET [Bearer k] [1] ");
  ASSERT_EQ(answer.redirects.size(), 1u);
  EXPECT_EQ(answer.redirects[0].status, 302);
  EXPECT_EQ(answer.redirects[0].header("X-Linked-Etag"), "e1");
  EXPECT_EQ(answer.last.url, server_->url() + "/show");
  auto none = same;
  none.max_redirects = 0;
  EXPECT_EQ(client_.send(none).last.status, 302);
  EXPECT_EQ(client_.send(none).body, "moved");
  auto post = request("/to?/show");
  post.method = "POST";
  post.body = "x";
  EXPECT_EQ(client_.send(post).body, "GET [] [] ");
}

TEST_F(ClientTest, KeysStayWithTheirOrigin) {
  auto away = request("/to?" + other_->url() + "/show");
  away.headers = {{"Authorization", "Bearer k"}, {"X-Kept", "1"}};
  EXPECT_EQ(client_.send(away).body, "GET [] [1] ");
}

TEST_F(ClientTest, RefusesBadRedirects) {
  EXPECT_EQ(code_of([&] { client_.send(request("/loop")); }), base::Code::kIo);
  EXPECT_EQ(code_of([&] { client_.send(request("/to?file:///etc/passwd")); }), base::Code::kIo);
  EXPECT_EQ(code_of([&] { client_.send(request("/to?ftp://127.0.0.1/x")); }), base::Code::kIo);
}

TEST_F(ClientTest, BodiesGoToTheCallbackWithProgress) {
  auto large = request("/large");
  size_t bytes = 0, last_done = 0, total = 0;
  int status = 0;
  large.on_head = [&](const Hop& hop) {
    status = hop.status;
    return true;
  };
  large.on_body = [&](std::string_view piece) {
    bytes += piece.size();
    return true;
  };
  large.on_progress = [&](uint64_t done, uint64_t of) {
    last_done = done;
    total = of;
    return true;
  };
  EXPECT_EQ(client_.send(large).body, "");
  EXPECT_EQ(status, 200);
  EXPECT_EQ(bytes, size_t{3 << 20});
  EXPECT_EQ(last_done, bytes);
  EXPECT_EQ(total, bytes);
  auto missing = request("/missing");
  missing.on_body = [](std::string_view) { return false; };
  EXPECT_NE(client_.send(missing).body, "");  // not a file's bytes
}

TEST_F(ClientTest, CallbacksAndTheFlagCancel) {
  auto large = request("/large");
  large.on_body = [](std::string_view) { return false; };
  EXPECT_EQ(code_of([&] { client_.send(large); }), base::Code::kCancelled);
  auto head = request("/large");
  head.on_head = [](const Hop&) { return false; };
  EXPECT_EQ(code_of([&] { client_.send(head); }), base::Code::kCancelled);
  auto thrown = request("/large");
  thrown.on_body = [](std::string_view) -> bool { throw base::Error(base::Code::kTooLarge, "mine"); };
  EXPECT_EQ(code_of([&] { client_.send(thrown); }), base::Code::kTooLarge);

  std::atomic<bool> cancel{false};
  auto silent = request("/silent");
  silent.cancel = &cancel;
  auto code = std::async(std::launch::async, [&] { return code_of([&] { client_.send(silent); }); });
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex_);
    return streams_.size() == 1;
  }));
  cancel = true;
  EXPECT_EQ(code.get(), base::Code::kCancelled);
  EXPECT_TRUE(eventually([&] { return lost_ == 1; }));  // the server is told
  EXPECT_EQ(client_.send(request("/file")).body, "0123456789");
}

TEST_F(ClientTest, StallsAndTotalTimeEndIt) {
  auto silent = request("/silent");
  silent.stall_timeout_ms = 50;
  EXPECT_EQ(code_of([&] { client_.send(silent); }), base::Code::kTimeout);
  silent.stall_timeout_ms = 0;
  silent.total_timeout_ms = 50;
  EXPECT_EQ(code_of([&] { client_.send(silent); }), base::Code::kTimeout);
}

TEST_F(ClientTest, LimitsAndBrokenBodiesAreErrors) {
  Client small(ClientOptions{"test", "", 1000});
  EXPECT_EQ(code_of([&] { small.send(request("/large")); }), base::Code::kTooLarge);
  EXPECT_EQ(code_of([&] { client_.send(request("/truncated")); }), base::Code::kIo);
  auto bad = request("/file");
  bad.headers = {{"X", "a\r\nY: b"}};
  EXPECT_EQ(code_of([&] { client_.send(bad); }), base::Code::kInvalidRequest);
}

TEST_F(ClientTest, ErrorsNameTheUrlWithoutItsSecrets) {
  ClientRequest request;
  const int port = other_->port();
  other_.reset();
  request.url = "http://user:pw@127.0.0.1:" + std::to_string(port) + "/x?token=secret";
  try {
    client_.send(request);
    FAIL();
  } catch (const base::Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.code(), base::Code::kIo);
    EXPECT_NE(what.find("http://127.0.0.1:" + std::to_string(port) + "/x"), std::string::npos) << what;
    EXPECT_EQ(what.find("secret"), std::string::npos) << what;
    EXPECT_EQ(what.find("pw"), std::string::npos) << what;
  }
  request.url = "file:///etc/passwd";
  EXPECT_EQ(code_of([&] { client_.send(request); }), base::Code::kIo);
}

TEST_F(ClientTest, AFailureIsTheSameAtTheNextTryAndHindersNoOtherRequest) {
  for (const char* url : {"http://nowhere.invalid/", "http://127.0.0.1:1/"}) {
    ClientRequest bad;
    bad.url = url;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(code_of([&] { client_.send(bad); }), base::Code::kIo) << url << i;
    EXPECT_EQ(client_.send(request("/file")).body, "0123456789") << url;
  }
}

TEST_F(ClientTest, ReachesUnixSockets) {
  ClientRequest request;
  request.url = "http://localhost/file";
  request.unix_socket = unix_path_;
  EXPECT_EQ(client_.send(request).body, "0123456789");
}

}  // namespace
}  // namespace penstock::http::test
