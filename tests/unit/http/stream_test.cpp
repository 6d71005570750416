// Streams: order, keep-alive, lost and slow peers.
#include "unit/http/fixture.h"

namespace penstock::http::test {
namespace {

class StreamTest : public HttpTest {
 protected:
  /// A client whose stream the handler holds; `index` counts streams.
  std::unique_ptr<RawClient> open(size_t index = 0, int receive_bytes = 0) {
    auto client = std::make_unique<RawClient>(server_->port(), receive_bytes);
    client->send(get("/stream"));
    EXPECT_TRUE(eventually([&] { return seen_.stream(index) != nullptr; }));
    return client;
  }
};

TEST_F(StreamTest, HeadIsSentAtOnceAndEventsFollow) {
  start();
  const auto client = open();
  ASSERT_TRUE(client->read_until("\r\n\r\n"));
  EXPECT_NE(client->received().find("Content-Type: text/event-stream\r\n"), std::string::npos);
  EXPECT_NE(client->received().find("Cache-Control: no-cache, no-transform\r\n"), std::string::npos);
  EXPECT_NE(client->received().find("X-Accel-Buffering: no\r\n"), std::string::npos);
  const auto stream = seen_.stream(0);
  EXPECT_TRUE(stream->write(sse_frame("one")));
  ASSERT_TRUE(client->read_until("b\r\ndata: one\n\n\r\n"));
  EXPECT_TRUE(stream->write(sse_frame("two")));
  stream->finish();
  EXPECT_FALSE(stream->write("late"));
  EXPECT_TRUE(stream->closed());
  ASSERT_TRUE(client->read_until("data: two\n\n\r\n0\r\n\r\n"));
  client->send(get("/hello"));
  EXPECT_TRUE(client->read_until("hello "));
  EXPECT_EQ(client->received().find("late"), std::string::npos);
  EXPECT_EQ(seen_.disconnects, 0);
}

TEST_F(StreamTest, KeepAlivesComeWhileNothingIsSentAndEndWithTheStream) {
  seen_.stream_options.keepalive_ms = 20;
  start();
  const auto client = open();
  ASSERT_TRUE(client->read_until(": keep-alive\n\n\r\n", 3));  // before any byte of the answer
  seen_.stream(0)->write(sse_frame("x"));
  ASSERT_TRUE(client->read_until("data: x"));
  const size_t before = count_of(client->received(), ": keep-alive");
  ASSERT_TRUE(client->read_until(": keep-alive\n\n", before + 2));
  seen_.stream(0)->write(sse_frame("[DONE]"));
  seen_.stream(0)->finish();
  ASSERT_TRUE(client->read_until("\r\n0\r\n\r\n"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // five intervals: none may follow
  client->send(get("/hello"));
  ASSERT_TRUE(client->read_until("hello "));
  const std::string& all = client->received();
  EXPECT_EQ(all.find(": keep-alive", all.find("[DONE]")), std::string::npos);
}

TEST_F(StreamTest, NoKeepAliveWhenOff) {
  seen_.stream_options.keepalive_ms = 0;
  start();
  const auto client = open();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  seen_.stream(0)->finish();
  ASSERT_TRUE(client->read_until("0\r\n\r\n"));
  EXPECT_EQ(client->received().find("keep-alive\n"), std::string::npos);
}

TEST_F(StreamTest, WritesFromManyThreadsArriveWholeAndInEachThreadsOrder) {
  options_.io_threads = 2;
  start();
  const auto client = open();
  const auto stream = seen_.stream(0);
  std::vector<std::thread> writers;
  constexpr int kThreads = 6, kEvents = 300;
  for (int t = 0; t < kThreads; ++t) {
    writers.emplace_back([&, t] {
      for (int i = 0; i < kEvents; ++i)
        stream->write("<" + std::to_string(t) + ":" + std::to_string(i) + ">");
    });
  }
  for (auto& writer : writers) writer.join();
  stream->finish();
  const std::string response = client->read_response();
  std::string body;  // without the chunk sizes
  for (size_t at = response.find("\r\n\r\n") + 4; at < response.size();) {
    const size_t size = std::stoul(response.substr(at), nullptr, 16);
    const size_t data = response.find("\r\n", at) + 2;
    body += response.substr(data, size);
    at = data + size + 2;
  }
  std::vector<int> next(kThreads, 0);
  size_t events = 0;
  for (size_t at = body.find('<'); at != std::string::npos; at = body.find('<', at + 1), ++events) {
    const int thread = std::stoi(body.substr(at + 1));
    EXPECT_EQ(std::stoi(body.substr(body.find(':', at) + 1)), next.at(thread)++);
  }
  EXPECT_EQ(events, static_cast<size_t>(kThreads * kEvents));
}

enum class Loss { kHalfClose, kClose, kReset };

class LossTest : public StreamTest, public ::testing::WithParamInterface<Loss> {
 protected:
  static void lose(RawClient& client) {
    if (GetParam() == Loss::kHalfClose) client.half_close();
    if (GetParam() == Loss::kClose) client.close();
    if (GetParam() == Loss::kReset) client.reset();
  }
};

TEST_P(LossTest, IsNoticedWhileStreaming) {
  seen_.stream_options.keepalive_ms = 0;
  start();
  const auto client = open();
  seen_.stream(0)->write(sse_frame("x"));
  ASSERT_TRUE(client->read_until("data: x"));
  lose(*client);
  EXPECT_TRUE(eventually([&] { return seen_.disconnects == 1; }));
  EXPECT_TRUE(seen_.stream(0)->closed());
  EXPECT_FALSE(seen_.stream(0)->write("more"));
  seen_.stream(0)->finish();
  EXPECT_TRUE(all_closed());
  EXPECT_EQ(seen_.disconnects, 1);
}

TEST_P(LossTest, IsNoticedWhileAHandlerWorks) {
  start();
  RawClient client(server_->port());
  client.send(get("/hold"));
  ASSERT_TRUE(eventually([&] { return seen_.exchange(0) != nullptr; }));
  EXPECT_FALSE(seen_.exchange(0)->disconnected());
  lose(client);
  EXPECT_TRUE(eventually([&] { return seen_.disconnects == 1; }));
  EXPECT_TRUE(seen_.exchange(0)->disconnected());
  std::atomic<bool> late{false};
  seen_.exchange(0)->on_disconnect([&] { late = true; });  // registered after the loss
  EXPECT_TRUE(eventually([&] { return late.load(); }));
  seen_.exchange(0)->respond({200, {}, "unheard", "text/plain"});
  EXPECT_TRUE(none_active());
  client.close();
  EXPECT_TRUE(all_closed());
  EXPECT_EQ(seen_.disconnects, 1);
}

TEST_P(LossTest, IsNoticedBehindMorePipelinedBytesThanAreRead) {
  options_.limits.max_header_bytes = 1024;
  start();
  RawClient client(server_->port());
  client.send(get("/hold"));
  ASSERT_TRUE(eventually([&] { return seen_.exchange(0) != nullptr; }));
  client.send(
      post(std::string(100000, 'x')));  // more than header limit and slack, less than the kernel takes
  lose(client);
  EXPECT_TRUE(eventually([&] { return seen_.disconnects == 1; }));
  seen_.exchange(0)->respond({200, {}, "unheard", "text/plain"});
  EXPECT_TRUE(none_active());
}

TEST_P(LossTest, BeforeAndWithinARequestEndsTheConnection) {
  start();
  RawClient idle(server_->port());
  RawClient head(server_->port());
  head.send("GET /hel");
  RawClient body(server_->port());
  body.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc");
  ASSERT_TRUE(eventually([&] { return server_->open_connections() == 3; }));
  for (RawClient* client : {&idle, &head, &body}) lose(*client);
  EXPECT_TRUE(all_closed());
  EXPECT_EQ(seen_.count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LossTest, ::testing::Values(Loss::kHalfClose, Loss::kClose, Loss::kReset),
                         [](const auto& info) {
                           return info.param == Loss::kHalfClose ? "HalfClose"
                                  : info.param == Loss::kClose   ? "Close"
                                                                 : "Reset";
                         });

TEST_F(StreamTest, ASlowReaderIsCutOffAndTheOthersAreNot) {
  seen_.stream_options.buffer_bytes = 64 << 10;
  start();
  const auto slow = open(0, 4096);
  const auto quick = open(1);
  const std::string event = sse_frame(std::string(1000, 'x'));
  bool taken = true;
  for (int i = 0; i < 100000 && taken; ++i) {
    taken = seen_.stream(0)->write(event);
    if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(taken);
  EXPECT_TRUE(seen_.stream(0)->closed());
  EXPECT_TRUE(eventually([&] { return seen_.disconnects == 1; }));
  seen_.stream(1)->write(sse_frame("fine"));
  seen_.stream(1)->finish();
  EXPECT_TRUE(quick->read_until("data: fine"));
  EXPECT_EQ(seen_.disconnects, 1);
  seen_.stream(0)->finish();
  EXPECT_TRUE(eventually([&] { return server_->open_connections() == 1; }));
  EXPECT_TRUE(slow->read_to_end());
  EXPECT_EQ(slow->received().find("\r\n0\r\n\r\n"), std::string::npos);
}

TEST_F(StreamTest, APeerThatTakesNothingForTheTimeLimitIsGone) {
  options_.limits.write_timeout_ms = 50;
  seen_.stream_options.buffer_bytes = 64 << 20;
  start();
  const auto client = open(0, 4096);
  seen_.stream(0)->write(std::string(8 << 20, 'x'));
  EXPECT_TRUE(eventually([&] { return seen_.disconnects == 1; }));
  EXPECT_FALSE(seen_.stream(0)->write("more"));
}

TEST_F(StreamTest, ADroppedStreamBreaksOffAndAnAbortedOneToo) {
  start();
  const auto dropped = open(0), aborted = open(1);
  seen_.stream(1)->write(sse_frame("x"));
  ASSERT_TRUE(aborted->read_until("data: x"));
  seen_.stream(1)->abort();
  {
    const std::lock_guard lock(seen_.mutex);
    seen_.streams[0].reset();
  }
  for (const auto& client : {dropped.get(), aborted.get()}) {
    EXPECT_TRUE(client->read_to_end());
    EXPECT_EQ(client->received().find("0\r\n\r\n"), std::string::npos);
  }
  EXPECT_TRUE(all_closed());
  EXPECT_EQ(seen_.disconnects, 0);
}

TEST_F(StreamTest, Http10StreamsEndWithTheConnection) {
  start();
  RawClient client(server_->port());
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return seen_.stream(0) != nullptr; }));
  seen_.stream(0)->write(sse_frame("x"));
  ASSERT_TRUE(client.read_until("data: x\n\n"));
  seen_.stream(0)->finish();  // nothing is left to send: the end comes at once and alone, no keep-alive
  EXPECT_TRUE(client.read_to_end());
  EXPECT_TRUE(client.received().ends_with("\r\n\r\ndata: x\n\n")) << client.received();
}

TEST_F(StreamTest, LargeChunksAndLargeAnswersArriveWhole) {
  start();
  const auto client = open();
  const std::string large(5 << 20, 'y');
  EXPECT_TRUE(seen_.stream(0)->write(large));
  seen_.stream(0)->finish();
  EXPECT_NE(client->read_response().find("500000\r\n" + large + "\r\n0\r\n\r\n"), std::string::npos);
  RawClient echo(server_->port());
  std::thread sender([&] { echo.send(post(large)); });
  EXPECT_TRUE(echo.read_response().ends_with(large));
  sender.join();
}

}  // namespace
}  // namespace penstock::http::test
