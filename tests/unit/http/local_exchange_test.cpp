#include "http/local_exchange.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::http {
namespace {

struct Answers {
  std::vector<Response> all;
  LocalExchange::OnResponse callback() {
    return [this](Response response) { all.push_back(std::move(response)); };
  }
};

TEST(LocalExchange, a_route_answers_to_the_callback) {
  Router router;
  router.add("POST", "/v1/{name}", [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
    exchange->on_disconnect([] { ADD_FAILURE() << "nobody can go away"; });
    EXPECT_FALSE(exchange->disconnected());
    exchange->respond({201, {}, request.params.at("name") + request.body, ""});
    EXPECT_THROW(exchange->respond({200, {}, "", ""}), base::Error);
  });
  Answers answers;
  Request request;
  request.method = "POST";
  request.path = "/v1/x";
  request.body = "y";
  call_route(router, request, answers.callback());
  ASSERT_EQ(answers.all.size(), 1u);
  EXPECT_EQ(answers.all[0].status, 201);
  EXPECT_EQ(answers.all[0].body, "xy");
  request.method = "GET";
  call_route(router, request, answers.callback());
  ASSERT_EQ(answers.all.size(), 2u);
  EXPECT_EQ(answers.all[1].status, 404);
}

TEST(LocalExchange, nobody_answers_with_500) {
  Answers answers;
  {
    LocalExchange exchange(answers.callback());
    EXPECT_THROW(exchange.start_stream({}, {}), base::Error);
    EXPECT_TRUE(answers.all.empty());
  }
  ASSERT_EQ(answers.all.size(), 1u);
  EXPECT_EQ(answers.all[0].status, 500);
}

}  // namespace
}  // namespace penstock::http
