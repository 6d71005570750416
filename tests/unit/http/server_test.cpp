// The server as a whole: addresses, limits on time and number, drain and stop.
#include <fstream>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit/http/fixture.h"

namespace penstock::http::test {
namespace {

class ServerTest : public HttpTest {
 protected:
  std::string socket_path() const {
    return ::testing::TempDir() + "penstock_http_" + std::to_string(::getpid());
  }
};

TEST_F(ServerTest, APortInUseIsNamedWithItsFlag) {
  start();
  ServerOptions options;
  options.port = server_->port();
  Server second(options, {});
  try {
    second.start();
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kIo);
    EXPECT_NE(std::string(error.what()).find(std::to_string(options.port)), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("--port"), std::string::npos);
  }
  options.host = "no.such.host.invalid";
  Server third(options, {});
  EXPECT_THROW(third.start(), base::Error);
}

TEST_F(ServerTest, UrlNamesTheAddress) {
  start();
  EXPECT_EQ(server_->url(), "http://127.0.0.1:" + std::to_string(server_->port()));
  EXPECT_GT(server_->port(), 0);
}

TEST_F(ServerTest, UnixSocketIsPrivateServesAndGoesAway) {
  options_.unix_socket = socket_path();
  options_.port = -1;
  start();
  EXPECT_EQ(server_->url(), "unix:" + socket_path());
  struct stat entry {};
  ASSERT_EQ(::stat(socket_path().c_str(), &entry), 0);
  EXPECT_EQ(entry.st_mode & 0777, 0600u);
  RawClient client(socket_path());
  client.send(get("/hello"));
  EXPECT_TRUE(client.read_response().ends_with("hello "));
  EXPECT_EQ(seen_.request(0).peer, "unix");
  client.send(get("/hold"));
  ASSERT_TRUE(eventually([&] { return seen_.exchange(0) != nullptr; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return seen_.disconnects == 1; }));

  Server second(options_, {});
  EXPECT_THROW(second.start(), base::Error);  // somebody listens there
  server_->stop();
  EXPECT_NE(::stat(socket_path().c_str(), &entry), 0);
}

TEST_F(ServerTest, AStaleUnixSocketIsReplacedAndAFileIsNot) {
  options_.unix_socket = socket_path();
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ::close(fd);  // leaves the file
  start();
  RawClient client(socket_path());
  client.send(get("/hello"));
  EXPECT_TRUE(client.read_response().ends_with("hello "));
  server_.reset();
  { std::ofstream(socket_path()) << "mine"; }
  EXPECT_THROW(start(), base::Error);
  EXPECT_EQ(::unlink(socket_path().c_str()), 0);  // still there
}

TEST_F(ServerTest, SlowHeadersAndSlowBodiesAre408) {
  options_.limits.header_timeout_ms = 60;
  options_.limits.body_timeout_ms = 60;
  start();
  RawClient head(server_->port());
  head.send("GET /hello HTTP/1.1\r\n");
  std::thread trickle([&] {
    while (head.try_send("X: y\r\n")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  EXPECT_TRUE(head.read_until("HTTP/1.1 408 "));
  EXPECT_TRUE(head.read_until("\"timeout\""));
  trickle.join();
  RawClient body(server_->port());
  body.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_TRUE(body.read_until("HTTP/1.1 408 "));
  EXPECT_TRUE(body.read_to_end());
  EXPECT_EQ(seen_.count(), 0u);
}

TEST_F(ServerTest, IdleConnectionsAreClosedWithoutAnAnswer) {
  options_.limits.idle_timeout_ms = 40;
  start();
  RawClient fresh(server_->port()), used(server_->port());
  used.send(get("/hello"));
  used.read_response();
  EXPECT_TRUE(fresh.read_to_end());
  EXPECT_TRUE(used.read_to_end());
  EXPECT_EQ(fresh.received() + used.received(), "");
}

TEST_F(ServerTest, IdleLimitDoesNotTouchAWorkingRequest) {
  options_.limits.idle_timeout_ms = 30;
  options_.limits.header_timeout_ms = 30;
  options_.limits.write_timeout_ms = 30;
  start();
  RawClient client(server_->port());
  client.send(get("/hold"));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  ASSERT_TRUE(eventually([&] { return seen_.exchange(0) != nullptr; }));
  seen_.exchange(0)->respond({200, {}, "slow work", "text/plain"});
  EXPECT_TRUE(client.read_response().ends_with("slow work"));
}

TEST_F(ServerTest, ConnectionsOverTheLimitGet503) {
  options_.limits.max_connections = 2;
  start();
  RawClient first(server_->port()), second(server_->port());
  first.send(get("/hello"));
  second.send(get("/hello"));
  first.read_response();
  second.read_response();
  RawClient third(server_->port());
  const std::string refused = third.read_response();
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 503 "));
  EXPECT_NE(refused.find("Retry-After: "), std::string::npos);
  EXPECT_TRUE(third.read_to_end());
  third.close();
  first.close();
  ASSERT_TRUE(eventually([&] { return server_->open_connections() == 1; }));
  RawClient fourth(server_->port());
  fourth.send(get("/hello"));
  EXPECT_TRUE(fourth.read_response().starts_with("HTTP/1.1 200"));
}

TEST_F(ServerTest, DrainLetsRunningRequestsEndAndRefusesNewOnes) {
  start();
  RawClient running(server_->port()), streaming(server_->port()), idle(server_->port());
  running.send(get("/hold"));
  streaming.send(get("/stream"));
  idle.send(get("/hello"));
  idle.read_response();
  ASSERT_TRUE(eventually([&] { return seen_.exchange(0) && seen_.stream(0); }));
  EXPECT_FALSE(server_->drain(20));
  EXPECT_TRUE(eventually([&] { return server_->active_requests() == 2; }));
  idle.send(get("/hello"));
  const std::string refused = idle.read_response();
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 503 "));
  EXPECT_NE(refused.find("Retry-After: "), std::string::npos);
  EXPECT_NE(refused.find("Connection: close"), std::string::npos);
  seen_.exchange(0)->respond({200, {}, "done", "text/plain"});
  const std::string answer = running.read_response();
  EXPECT_TRUE(answer.ends_with("done"));
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  seen_.stream(0)->write(sse_frame("last"));
  seen_.stream(0)->finish();
  EXPECT_TRUE(streaming.read_until("data: last\n\n\r\n0\r\n\r\n"));
  EXPECT_TRUE(server_->drain(60000));
  EXPECT_EQ(seen_.disconnects, 0);
}

TEST_F(ServerTest, StopAcceptingKeepsConnections) {
  start();
  RawClient client(server_->port());
  client.send(get("/hello"));
  client.read_response();
  const int port = server_->port();
  server_->stop_accepting();
  EXPECT_THROW(RawClient refused(port), std::runtime_error);
  client.send(get("/hello"));
  EXPECT_TRUE(client.read_response().starts_with("HTTP/1.1 200"));
}

TEST_F(ServerTest, StopBreaksOffAndTellsHandlers) {
  options_.io_threads = 3;
  start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    clients.back()->send(get(i % 2 ? "/hold" : "/stream"));
  }
  ASSERT_TRUE(eventually([&] { return seen_.exchange(5) && seen_.stream(5); }));
  server_->stop();
  EXPECT_EQ(seen_.disconnects, 12);
  EXPECT_EQ(server_->open_connections(), 0u);
  EXPECT_FALSE(seen_.stream(0)->write("late"));  // handles outlive the server
  seen_.exchange(0)->respond({});
  bool told = false;
  seen_.exchange(1)->on_disconnect([&] { told = true; });
  EXPECT_TRUE(told);
  for (const auto& client : clients) EXPECT_TRUE(client->read_to_end());
  server_->stop();
}

TEST_F(ServerTest, HandlesMayOutliveTheServer) {
  start();
  RawClient client(server_->port());
  client.send(get("/hold") + get("/hello"));
  ASSERT_TRUE(eventually([&] { return seen_.exchange(0) != nullptr; }));
  server_.reset();
  EXPECT_TRUE(seen_.exchange(0)->disconnected());
  seen_.exchange(0)->respond({});
}

}  // namespace
}  // namespace penstock::http::test
