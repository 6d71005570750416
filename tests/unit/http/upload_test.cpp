// Routes that take their body while it arrives.
#include <deque>

#include "base/error.h"
#include "unit/http/fixture.h"

namespace penstock::http::test {
namespace {

/// Takes pieces until it holds `room_bytes`, and more when the test makes room.
struct Basin {
  std::mutex mutex;
  std::string text;
  size_t held_bytes = 0, room_bytes = SIZE_MAX, most_held_bytes = 0;
  std::function<void()> wake;
  int opened = 0, finished = 0, dropped = 0;
  bool refuses = false, fails = false;

  void drain() {
    std::function<void()> call;
    {
      const std::lock_guard lock(mutex);
      held_bytes = 0;
      call = wake;
    }
    if (call) call();
  }
  std::string taken() {
    const std::lock_guard lock(mutex);
    return text;
  }
  int count(const int Basin::*member) {
    const std::lock_guard lock(mutex);
    return this->*member;
  }
};

class BasinSink : public BodySink {
 public:
  explicit BasinSink(Basin& basin) : basin_(basin) {}
  ~BasinSink() override {
    const std::lock_guard lock(basin_.mutex);
    if (!finished_) ++basin_.dropped;
  }
  bool is_ready() override {
    const std::lock_guard lock(basin_.mutex);
    return basin_.held_bytes < basin_.room_bytes;
  }
  void write(std::string piece) override {
    const std::lock_guard lock(basin_.mutex);
    if (basin_.fails) throw base::Error(base::Code::kIo, "[test.sink] expected room; got none");
    basin_.held_bytes += piece.size();
    basin_.most_held_bytes = std::max(basin_.most_held_bytes, basin_.held_bytes);
    basin_.text += piece;
  }
  void finish(std::shared_ptr<Exchange> exchange) override {
    const std::lock_guard lock(basin_.mutex);
    finished_ = true;
    ++basin_.finished;
    exchange->respond({201, {}, "taken", "text/plain"});
  }

 private:
  Basin& basin_;
  bool finished_ = false;
};

class UploadTest : public HttpTest {
 protected:
  void start_uploads(uint64_t max_bytes = 1 << 30) {
    Router router;
    router.add_upload("POST", "/up/{name}",
                      {max_bytes, [this](const Request& head, std::function<void()> wake) {
                         const std::lock_guard lock(basin_.mutex);
                         if (basin_.refuses || head.params.at("name") == "bad")
                           throw base::Error(base::Code::kInvalidRequest,
                                             "[test.open] expected less; got more");
                         ++basin_.opened;
                         basin_.wake = std::move(wake);
                         return std::make_shared<BasinSink>(basin_);
                       }});
    server_ = std::make_unique<Server>(options_, std::move(router));
    server_->start();
  }
  static std::string head(const std::string& more) {
    return "POST /up/x HTTP/1.1\r\nHost: test\r\n" + more + "\r\n";
  }
  static std::string length(size_t bytes) { return "Content-Length: " + std::to_string(bytes) + "\r\n"; }

  Basin basin_;
};

TEST_F(UploadTest, a_body_arrives_whole_and_the_connection_lives_on) {
  options_.limits.max_body_bytes = 10;  // of other routes
  start_uploads();
  RawClient client(server_->port());
  client.send(head(length(12)) + "hello ");
  EXPECT_TRUE(eventually([&] { return basin_.taken() == "hello "; }));
  client.send("upload");
  EXPECT_NE(client.read_response().find("201"), std::string::npos);
  EXPECT_EQ(basin_.taken(), "hello upload");
  client.send(head("Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_NE(client.read_response().find("201"), std::string::npos);
  EXPECT_EQ(basin_.taken(), "hello uploadabcde");
  client.send(head(length(0)));
  EXPECT_NE(client.read_response().find("201"), std::string::npos);
  EXPECT_EQ(basin_.count(&Basin::finished), 3);
  EXPECT_EQ(basin_.count(&Basin::dropped), 0);
}

TEST_F(UploadTest, a_sink_that_is_full_holds_the_client_up) {
  start_uploads();
  basin_.room_bytes = 1;
  RawClient client(server_->port());
  const std::string body(8 << 20, 'x');
  std::thread sender([&] { client.send(head(length(body.size())) + body); });
  EXPECT_TRUE(eventually([&] { return !basin_.taken().empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(basin_.taken().size(), body.size());
  EXPECT_TRUE(eventually([&] {
    basin_.drain();
    return basin_.taken().size() == body.size();
  }));
  sender.join();
  EXPECT_NE(client.read_response().find("201"), std::string::npos);
  const std::lock_guard lock(basin_.mutex);
  EXPECT_LE(basin_.most_held_bytes, 256u << 10);  // what a session reads ahead
}

TEST_F(UploadTest, limits_refuse_before_and_while_the_body_comes) {
  start_uploads(1000);
  RawClient announced(server_->port());
  announced.send(head(length(1001) + "Expect: 100-continue\r\n"));
  EXPECT_NE(announced.read_response().find("413"), std::string::npos);
  EXPECT_EQ(basin_.count(&Basin::opened), 0);
  RawClient chunked(server_->port());
  chunked.send(head("Transfer-Encoding: chunked\r\n") + "400\r\n" + std::string(1024, 'x') + "\r\n");
  EXPECT_NE(chunked.read_response().find("413"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return basin_.count(&Basin::dropped) == 1; }));
}

TEST_F(UploadTest, who_opens_may_refuse_and_so_may_the_sink) {
  start_uploads();
  RawClient refused(server_->port());
  refused.send("POST /up/bad HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
  EXPECT_TRUE(refused.read_response().starts_with("HTTP/1.1 400"));
  basin_.fails = true;
  RawClient failing(server_->port());
  failing.send(head(length(100000)) + "abc");
  EXPECT_NE(failing.read_response().find("500"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return basin_.count(&Basin::dropped) == 1; }));
}

TEST_F(UploadTest, an_upload_that_breaks_off_is_dropped) {
  start_uploads();
  RawClient client(server_->port());
  client.send(head(length(100)) + "abc");
  EXPECT_TRUE(eventually([&] { return basin_.taken() == "abc"; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return basin_.count(&Basin::dropped) == 1; }));
  EXPECT_EQ(basin_.count(&Basin::finished), 0);
}

TEST_F(UploadTest, the_time_limit_is_for_each_piece) {
  options_.limits.body_timeout_ms = 1000;
  start_uploads();
  RawClient slow(server_->port());
  slow.send(head(length(4)));
  for (const char* piece : {"a", "b", "c", "d"}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    slow.send(piece);
  }
  EXPECT_NE(slow.read_response().find("201"), std::string::npos);
  RawClient silent(server_->port());
  silent.send(head(length(6)) + "a");
  EXPECT_NE(silent.read_response().find("408"), std::string::npos);
}

}  // namespace
}  // namespace penstock::http::test
