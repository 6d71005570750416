#include "http/router.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "http/sse.h"
#include "http/uri.h"

namespace penstock::http {
namespace {

/// A handler that only says, by its address, which route it is.
Handler nothing() {
  return [](const Request&, const std::shared_ptr<Exchange>&) {};
}

TEST(Router, PrefersLiteralsThenParametersThenRests) {
  Router router;
  router.add("GET", "/v1/{rest...}", nothing());
  router.add("GET", "/v1/{one}", nothing());
  router.add("GET", "/v1/models", nothing());
  router.add("POST", "/v1/models/{id...}/load", nothing());
  router.add("GET", "/", nothing());
  EXPECT_TRUE(router.match("GET", "/v1/models")->params.empty());
  EXPECT_EQ(router.match("GET", "/v1/other")->params.at("one"), "other");
  EXPECT_EQ(router.match("GET", "/v1/a/b%2fc")->params.at("rest"), "a/b/c");
  EXPECT_EQ(router.match("POST", "/v1/models/a/b/load")->params.at("id"), "a/b");
  EXPECT_NE(router.match("GET", "/")->handler, nullptr);
  EXPECT_FALSE(router.match("GET", "/v2"));
  EXPECT_FALSE(router.match("GET", "/v1/"));
  EXPECT_FALSE(router.match("GET", "/v1%2fmodels"));
  EXPECT_FALSE(router.match("GET", ""));
}

TEST(Router, AnotherRouteMayHaveTheMethod) {
  Router router;
  router.add("GET", "/files/{id}", nothing());
  router.add("POST", "/files/{any...}", nothing());
  EXPECT_NE(router.match("POST", "/files/x")->handler, nullptr);
  const auto match = router.match("PUT", "/files/x");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->handler, nullptr);
}

TEST(Router, NamesTheMethodsOfAPath) {
  Router router;
  router.add("GET", "/a", nothing());
  router.add("POST", "/a", nothing());
  EXPECT_EQ(router.match("PUT", "/a")->allow, "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(router.match("HEAD", "/a")->handler, router.match("GET", "/a")->handler);
}

TEST(Router, RefusesBadPatterns) {
  Router router;
  router.add("GET", "/a/{x}", nothing());
  EXPECT_THROW(router.add("GET", "/a/{y}", nothing()), base::Error);
  EXPECT_THROW(router.add("GET", "a", nothing()), base::Error);
  EXPECT_THROW(router.add("GET", "/{a...}/{b...}", nothing()), base::Error);
  EXPECT_THROW(router.add("GET", "/{a", nothing()), base::Error);
}

TEST(Uri, DecodesAndEncodes) {
  EXPECT_EQ(percent_decode("a%20b%2Fc"), "a b/c");
  EXPECT_EQ(percent_decode("a%20b%2Fc", true), "a b%2Fc");
  for (const auto* bad : {"%", "%2", "%zz", "%00"}) EXPECT_FALSE(percent_decode(bad)) << bad;
  EXPECT_EQ(percent_encode("a b/\xc3\xa4"), "a%20b%2F%C3%A4");
  EXPECT_EQ(percent_encode("a b/c", true), "a%20b/c");
}

TEST(Uri, HidesSecretsAndFindsOrigins) {
  EXPECT_EQ(public_url("https://user:pw@host:8/a?token=1#f"), "https://host:8/a");
  EXPECT_EQ(origin_of("HTTPS://u@Hub.Example/x"), "https://hub.example:443");
  EXPECT_EQ(origin_of("http://[::1]/x"), "http://[::1]:80");
  EXPECT_EQ(origin_of("http://[::1]:81/x"), "http://[::1]:81");
  EXPECT_EQ(origin_of("/x"), "");
}

TEST(Sse, FramesEveryLine) {
  EXPECT_EQ(sse_frame("a"), "data: a\n\n");
  EXPECT_EQ(sse_frame("a\nb\r\nc\rd", "x"), "event: x\ndata: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(sse_frame(""), "data: \n\n");
  EXPECT_EQ(ndjson_line("{}"), "{}\n");
  EXPECT_THROW(ndjson_line("{\n}"), base::Error);
}

TEST(Uri, FieldsOfAQuery) {
  using Fields = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(*parse_query("a=1&b=x+y%26z&&c&a=2&=v"),
            (Fields{{"a", "1"}, {"b", "x y&z"}, {"c", ""}, {"a", "2"}, {"", "v"}}));
  EXPECT_TRUE(parse_query("")->empty());
  EXPECT_FALSE(parse_query("a=%4"));
  EXPECT_FALSE(parse_query("%00=1"));
}

}  // namespace
}  // namespace penstock::http
