// Requests and their answers: framing, pipelining, methods, errors in the envelope.
#include "base/json.h"
#include "http/request_parser.h"
#include "unit/http/fixture.h"

namespace penstock::http::test {
namespace {

using ::testing::Test;

class RequestTest : public HttpTest {};

bool has_status(const std::string& response, int status) {
  return response.starts_with("HTTP/1.1 " + std::to_string(status) + " ");
}

std::string body_of(const std::string& response) {
  return response.substr(response.find("\r\n\r\n") + 4);
}

base::Json error_of(const std::string& response) {
  return base::parse_json(body_of(response), "response").at("error");
}

TEST_F(RequestTest, KeepAliveServesTwoRequestsOnOneConnection) {
  start();
  RawClient client(server_->port());
  client.send(get("/hello?a=1"));
  EXPECT_EQ(body_of(client.read_response()), "hello a=1");
  client.send(post("abc"));
  EXPECT_EQ(body_of(client.read_response()), "abc");
  EXPECT_EQ(server_->open_connections(), 1u);
}

TEST_F(RequestTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  RawClient client(server_->port());
  std::string all;
  for (int i = 0; i < 50; ++i)
    all += post("body " + std::to_string(i)) + "\r\n" + get("/hello?" + std::to_string(i));
  client.send(all);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(body_of(client.read_response()), "body " + std::to_string(i));
    EXPECT_EQ(body_of(client.read_response()), "hello " + std::to_string(i));
  }
}

TEST_F(RequestTest, MorePipelinedBytesThanTheInputHoldsArrive) {
  options_.limits.max_header_bytes = 1024;
  start();
  RawClient client(server_->port());
  std::thread sender([&] {
    for (int i = 0; i < 40; ++i) client.send(post(std::string(20000, 'a' + i % 26)));
  });
  for (int i = 0; i < 40; ++i) EXPECT_EQ(body_of(client.read_response()), std::string(20000, 'a' + i % 26));
  sender.join();
}

TEST_F(RequestTest, HeadersSplitAtEveryByteAreRead) {
  start();
  RawClient client(server_->port());
  for (const char c : post("xyz", "X-Test: one\r\n")) {
    client.send(std::string(1, c));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(body_of(client.read_response()), "xyz");
  EXPECT_EQ(seen_.request(0).header("x-TEST"), "one");
}

TEST_F(RequestTest, ChunkedBodyIsJoined) {
  start();
  RawClient client(server_->port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.send("4;ext=1\r\ndef");
  client.send("g\r\n0\r\nTrailer: x\r\n\r\n");
  EXPECT_EQ(body_of(client.read_response()), "abcdefg");
  client.send(get("/hello"));
  EXPECT_TRUE(has_status(client.read_response(), 200));
}

TEST_F(RequestTest, HeadOnAGetRouteHasTheLengthAndNoBody) {
  start();
  RawClient client(server_->port());
  client.send("HEAD /hello?12345 HTTP/1.1\r\nHost: t\r\n\r\n" + get("/hello"));
  const std::string head = client.read_response(true);
  EXPECT_TRUE(has_status(head, 200));
  EXPECT_NE(head.find("Content-Length: 11\r\n"), std::string::npos);
  EXPECT_TRUE(has_status(client.read_response(), 200));
  EXPECT_EQ(seen_.request(0).method, "HEAD");
}

TEST_F(RequestTest, HeadOnAStreamHasNoBodyAndTheConnectionLives) {
  start();
  RawClient client(server_->port());
  client.send("HEAD /stream HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_NE(client.read_response(true).find("text/event-stream"), std::string::npos);
  EXPECT_FALSE(seen_.stream(0)->write("data: x\n\n"));
  client.send(get("/hello"));
  EXPECT_EQ(body_of(client.read_response()), "hello ");
}

TEST_F(RequestTest, OptionsNamesTheMethodsAndIsDecorated) {
  options_.decorate = [](const Request& request, Response& response) {
    response.headers.push_back({"X-Path", request.path});
  };
  start();
  RawClient client(server_->port());
  client.send("OPTIONS /hello HTTP/1.1\r\nHost: t\r\n\r\n");
  const std::string response = client.read_response();
  EXPECT_TRUE(has_status(response, 204));
  EXPECT_NE(response.find("Allow: GET, HEAD, OPTIONS\r\n"), std::string::npos);
  EXPECT_NE(response.find("X-Path: /hello\r\n"), std::string::npos);
  EXPECT_EQ(response.find("Content-Length"), std::string::npos);
  client.send("OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_TRUE(has_status(client.read_response(), 204));
}

TEST_F(RequestTest, UnknownPathAndMethodUseTheEnvelope) {
  start();
  RawClient client(server_->port());
  client.send(get("/nothing"));
  const std::string missing = client.read_response();
  EXPECT_TRUE(has_status(missing, 404));
  EXPECT_EQ(error_of(missing).at("code"), "not_found");
  client.send("DELETE /hello HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nbody");
  const std::string wrong = client.read_response();
  EXPECT_TRUE(has_status(wrong, 405));
  EXPECT_NE(wrong.find("Allow: GET, HEAD, OPTIONS\r\n"), std::string::npos);
  EXPECT_EQ(error_of(wrong).at("code"), "method_not_allowed");
  client.send(get("/hello"));  // the small body was read, so the connection lives
  EXPECT_TRUE(has_status(client.read_response(), 200));
}

TEST_F(RequestTest, ParametersAreDecodedWithTheirSlashes) {
  start();
  RawClient client(server_->port());
  client.send(get("/models/org/a%20b") + get("/models/org%2Fname") + get("/models/a%zz") + get("/models/"));
  EXPECT_EQ(body_of(client.read_response()), "/models/org/a b org/a b");
  EXPECT_EQ(body_of(client.read_response()), "/models/org%2Fname org/name");
  EXPECT_TRUE(has_status(client.read_response(), 400));
}

TEST_F(RequestTest, MalformedInputIs400InTheEnvelopeAndCloses) {
  start();
  const std::vector<std::string> bad = {
      "nonsense\r\n\r\n",
      "GET /hello HTTP/3.7\r\nHost: t\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET /hello HTTP/1.1\r\n\r\n",                            // no Host
      "GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",      // two
      "GET hello HTTP/1.1\r\nHost: t\r\n\r\n",                  // not a path
      "GET /a%00 HTTP/1.1\r\nHost: t\r\n\r\n",                  // encoded NUL
      "GET /hello HTTP/1.1\r\nHost: t\r\nBad Name: x\r\n\r\n",  //
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: x\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      std::string("GET /hello HTTP/1.1\r\nHost: t\r\nX: a\0b\r\n\r\n", 40),
  };
  for (const std::string& input : bad) {
    RawClient client(server_->port());
    client.send(input);
    const std::string response = client.read_response();
    EXPECT_TRUE(response.starts_with("HTTP/1.") && response.substr(9, 3) == "400") << input << "\n"
                                                                                   << response;
    EXPECT_TRUE(error_of(response).contains("message")) << input;
    EXPECT_TRUE(client.read_to_end()) << input;
  }
  EXPECT_EQ(seen_.count(), 0u);
}

TEST_F(RequestTest, CodingsThatAreNotReadAreRefused) {
  start();
  RawClient gzip(server_->port());
  gzip.send(post("xxxx", "Content-Encoding: gzip\r\n") + get("/hello"));
  EXPECT_TRUE(has_status(gzip.read_response(), 415));
  EXPECT_TRUE(has_status(gzip.read_response(), 200));
  RawClient coding(server_->port());
  coding.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
  EXPECT_TRUE(has_status(coding.read_response(), 501));
  EXPECT_TRUE(coding.read_to_end());
}

TEST_F(RequestTest, ExpectContinueIsAnsweredBeforeTheBody) {
  start();
  RawClient client(server_->port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send("abcde");
  ASSERT_TRUE(client.read_until("abcde"));
  RawClient other(server_->port());
  other.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nExpect: tea\r\n\r\n");
  EXPECT_TRUE(has_status(other.read_response(false), 417));
}

TEST_F(RequestTest, GateRefusesBeforeTheBodyIsSent) {
  options_.gate = [](const Request& request) -> std::optional<Response> {
    EXPECT_TRUE(request.body.empty());
    if (request.header("Authorization") == "Bearer right") return std::nullopt;
    throw base::Error(base::Code::kUnauthorized, "[test.gate] expected a key; got none");
  };
  start();
  RawClient client(server_->port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 9000\r\nExpect: 100-continue\r\n\r\n");
  const std::string refused = client.read_response();
  EXPECT_TRUE(has_status(refused, 401));
  EXPECT_NE(refused.find("Connection: close"), std::string::npos);  // the body may or may not come
  RawClient second(server_->port());
  second.send(post("abc") + post("def", "Authorization: Bearer right\r\n"));
  EXPECT_TRUE(has_status(second.read_response(), 401));
  EXPECT_EQ(body_of(second.read_response()), "def");
  EXPECT_EQ(seen_.count(), 1u);
}

TEST_F(RequestTest, OversizeBodiesAre413AndTheAnswerArrives) {
  options_.limits.max_body_bytes = 1000;
  start();
  RawClient exact(server_->port());
  exact.send(post(std::string(1000, 'x')));
  EXPECT_TRUE(has_status(exact.read_response(), 200));
  RawClient little(server_->port());
  little.send(post(std::string(1001, 'x')));
  EXPECT_TRUE(has_status(little.read_response(), 413));
  RawClient large(server_->port());
  large.try_send(post(std::string(8 << 20, 'x')));  // all of it, before reading the answer
  const std::string response = large.read_response();
  EXPECT_TRUE(has_status(response, 413));
  EXPECT_EQ(error_of(response).at("code"), "too_large");
  EXPECT_TRUE(large.read_to_end());
  RawClient chunked(server_->port());
  chunked.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 30; ++i) chunked.try_send("64\r\n" + std::string(100, 'x') + "\r\n");
  EXPECT_TRUE(has_status(chunked.read_response(), 413));
}

TEST_F(RequestTest, OversizeHeadersAre431) {
  options_.limits.max_header_bytes = 2000;
  start();
  RawClient client(server_->port());
  client.send(get("/hello", "X-Long: " + std::string(5000, 'x') + "\r\n"));
  EXPECT_TRUE(has_status(client.read_response(), 431));
  EXPECT_TRUE(client.read_to_end());
  RawClient endless(server_->port());
  endless.try_send("GET /" + std::string(200000, 'x'));
  EXPECT_TRUE(has_status(endless.read_response(), 431));
}

/// The size of a head is that of its bytes, whatever the pieces they come in.
TEST(RequestParser, TheLimitOfAHeadIsTheSameInPieces) {
  Limits limits;
  limits.max_header_bytes = 1024;
  for (const size_t over : {0, 1, 12}) {
    const std::string front = "POST / HTTP/1.1\r\nHost: a\r\nX: ", end = "\r\n\r\n";
    const std::string head = front + std::string(1024 + over - front.size() - end.size(), 'x') + end;
    for (const size_t piece : {head.size(), size_t{500}, size_t{6}, size_t{1}}) {
      RequestParser parser(limits);
      auto state = RequestParser::State::kNeedMore;
      std::string input;
      for (size_t at = 0; at < head.size() && state == RequestParser::State::kNeedMore; at += piece) {
        size_t used_bytes = 0;
        input += head.substr(at, piece);
        state = parser.parse_head(input, used_bytes);
        input.erase(0, used_bytes);
      }
      EXPECT_EQ(state, over == 0 ? RequestParser::State::kDone : RequestParser::State::kFailed)
          << over << " bytes too many in pieces of " << piece;
    }
  }
}

TEST_F(RequestTest, ErrorsOfHandlersBecomeTheirEnvelope) {
  start();
  RawClient client(server_->port());
  client.send(get("/throw/error") + get("/throw/other") + get("/throw/nothing") + get("/hello"));
  const std::string known = client.read_response();
  EXPECT_TRUE(has_status(known, 400));
  EXPECT_EQ(error_of(known).at("message"), "expected less; got more");
  EXPECT_EQ(error_of(known).at("param"), "a.b");
  const std::string unknown = client.read_response();
  EXPECT_TRUE(has_status(unknown, 500));
  EXPECT_EQ(unknown.find("secret"), std::string::npos);
  EXPECT_TRUE(has_status(client.read_response(), 500));  // the exchange was dropped without an answer
  EXPECT_TRUE(has_status(client.read_response(), 200));
}

TEST_F(RequestTest, AThrowAfterTheHeadBreaksTheStreamOff) {
  start();
  RawClient client(server_->port());
  client.send(get("/throw/late"));
  EXPECT_TRUE(client.read_to_end());
  EXPECT_TRUE(client.received().starts_with("HTTP/1.1 200"));
  EXPECT_EQ(client.received().find("\r\n0\r\n\r\n"), std::string::npos);
}

TEST_F(RequestTest, TheErrorHookAndHostileHeadersAreHeeded) {
  options_.error_response = [](const base::Error& error, const Request& request) {
    return Response{499, {{"X-Code", std::string(base::name(error.code()))}}, "at " + request.path, "text/x"};
  };
  options_.decorate = [](const Request&, Response& response) {
    response.headers.push_back({"X-Id", "a\r\nSet-Cookie: b"});
    response.headers.push_back({"content-length", "77"});
  };
  start();
  RawClient client(server_->port());
  client.send(get("/nothing"));
  const std::string response = client.read_response();
  EXPECT_TRUE(has_status(response, 404));
  EXPECT_NE(response.find("X-Code: not_found\r\n"), std::string::npos);
  EXPECT_EQ(body_of(response), "at /nothing");
  EXPECT_EQ(response.find("Set-Cookie"), std::string::npos);
  EXPECT_EQ(response.find("77"), std::string::npos);
}

TEST_F(RequestTest, Http10AndConnectionCloseEndTheConnection) {
  start();
  RawClient old(server_->port());
  old.send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(old.read_to_end());
  EXPECT_TRUE(old.received().starts_with("HTTP/1.0 200"));
  RawClient kept(server_->port());
  kept.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_NE(kept.read_response().find("Connection: keep-alive"), std::string::npos);
  RawClient closing(server_->port());
  closing.send(get("/hello", "Connection: close\r\n"));
  EXPECT_TRUE(closing.read_to_end());
  RawClient absolute(server_->port());
  absolute.send("GET http://test/hello?q HTTP/1.1\r\nHost: test\r\n\r\n");
  EXPECT_EQ(body_of(absolute.read_response()), "hello q");
}

TEST_F(RequestTest, AHalfClosedClientStillGetsItsAnswers) {
  start();
  RawClient client(server_->port());
  client.send(get("/hello?1") + get("/hello?2"));
  client.half_close();
  EXPECT_TRUE(client.read_to_end());
  EXPECT_EQ(count_of(client.received(), "HTTP/1.1 200"), 2u);
}

TEST_F(RequestTest, AHalfClosedClientWhoseHandlerLetsGoHearsNothingOfAnInternalError) {
  start();
  RawClient client(server_->port());
  client.send(get("/hold"));
  ASSERT_TRUE(eventually([&] { return seen_.exchange(0) != nullptr; }));
  client.half_close();
  ASSERT_TRUE(eventually([&] { return seen_.disconnects == 1; }));
  {
    const std::lock_guard lock(seen_.mutex);
    seen_.held.clear();
  }
  EXPECT_TRUE(client.read_to_end());
  EXPECT_EQ(client.received(), "");
  EXPECT_TRUE(all_closed());
}

TEST_F(RequestTest, AnswersFromAnotherThreadAndSecondAnswersThrow) {
  start();
  RawClient client(server_->port());
  client.send(get("/hold"));
  ASSERT_TRUE(eventually([&] { return seen_.exchange(0) != nullptr; }));
  std::thread answering([&] { seen_.exchange(0)->respond({201, {}, "later", "text/plain"}); });
  EXPECT_EQ(body_of(client.read_response()), "later");
  answering.join();
  EXPECT_THROW(seen_.exchange(0)->respond({}), base::Error);
  EXPECT_THROW(seen_.exchange(0)->start_stream({}), base::Error);
  client.close();
  ASSERT_TRUE(all_closed());
  EXPECT_EQ(seen_.disconnects, 0);  // the answer was complete
}

}  // namespace
}  // namespace penstock::http::test
