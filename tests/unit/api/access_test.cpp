#include "api/access.h"

#include <gtest/gtest.h>

#include "api/server.h"

namespace penstock::api {
namespace {

http::Request get(const std::string& path, std::vector<http::Header> headers = {}) {
  http::Request request;
  request.method = "GET";
  request.path = path;
  request.headers = std::move(headers);
  return request;
}

TEST(Access, SE_07_a_missing_empty_or_wrong_key_is_refused) {
  const Access access({"secret", {}});
  const auto status = [&](std::vector<http::Header> headers) {
    const auto refused = access.refuse(get("/v1/models", std::move(headers)));
    return refused ? refused->status : 200;
  };
  EXPECT_EQ(status({}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer "}}), 401);
  EXPECT_EQ(status({{"Authorization", "secret"}}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer secre"}}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer secretsecret"}}), 401);
  EXPECT_EQ(status({{"Authorization",
                     "Bearer s\xC3\xA9"
                     "cret"}}),
            401);
  EXPECT_EQ(status({{"Authorization", "bearer secret"}}), 200);
  EXPECT_EQ(status({{"x-api-key", "secret"}}), 200);
  EXPECT_EQ(status({{"Authorization", "Bearer secret"}, {"x-api-key", "other"}}), 401) << "both must agree";
  EXPECT_EQ(status({{"Authorization", "Bearer other"}, {"x-api-key", "secret"}}), 401);
}

TEST(Access, SE_08_only_probes_are_open) {
  const Access access({"secret", {}});
  for (const char* path : {"/health", "/healthz", "/readyz", "/livez"})
    EXPECT_FALSE(access.refuse(get(path))) << path;
  for (const char* path : {"/metrics", "/v1/models", "/health/x", "/nothing"})
    EXPECT_TRUE(access.refuse(get(path))) << path;
  EXPECT_FALSE(Access({"", {}}).refuse(get("/metrics"))) << "no key is asked for where none is set";
}

TEST(Access, SE_10_a_name_of_the_public_dns_must_be_trusted) {
  AccessOptions options{"", {}, true, {"Model.Example.org"}};
  const auto status = [&](const char* host) {
    const auto refused = Access(options).refuse(get("/v1/models", {{"Host", host}}));
    return refused ? refused->status : 200;
  };
  for (const char* host : {"localhost", "LOCALHOST:11434", "a.localhost:1", "127.0.0.1:80", "10.1.2.3",
                           "[::1]", "[::1]:80", "box:11434", "mac.local:80", "host.docker.internal:11434", "",
                           "model.example.org:11434", "model.example.org."}) {
    EXPECT_EQ(status(host), 200) << host;
  }
  for (const char* host : {"evil.example", "evil.example.:80", "127.0.0.1.evil.example:80",
                           "localhost.evil.example", "1.2.3.4x.org", "local.evil.example",
                           "evilinternal.example", "model.example.org.evil.example", "xmodel.example.org"}) {
    EXPECT_EQ(status(host), 403) << host;
  }
  options.trusted_hosts = {"*"};
  EXPECT_EQ(status("evil.example"), 200);
  options = {};
  EXPECT_EQ(status("evil.example"), 200) << "not asked to look";
}

TEST(Access, SE_07_comparison_sees_every_difference) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const char* other : {"", "ab", "abcd", "abd", "abcabc"})
    EXPECT_FALSE(equal_in_constant_time(other, "abc")) << other;
}

TEST(Access, OL_04_an_allowed_origin_is_echoed_and_another_is_not) {
  const Access access({"", {"https://ui.example"}});
  const auto origin_for = [&](const std::string& origin) {
    http::Response response;
    access.add_cors(get("/v1/models", {{"Origin", origin}}), response);
    return std::string(http::find_header(response.headers, "access-control-allow-origin"));
  };
  EXPECT_EQ(origin_for("https://ui.example"), "https://ui.example");
  EXPECT_EQ(origin_for("https://evil.example"), "");
}

TEST(Access, SE_21_a_request_id_is_echoed_only_if_it_is_fit) {
  EXPECT_EQ(request_id(get("/", {{"x-request-id", "abc-1"}})), "abc-1");
  EXPECT_NE(request_id(get("/", {{"x-request-id", "a b"}})), "a b");
  EXPECT_LT(request_id(get("/", {{"x-request-id", std::string(200, 'a')}})).size(), 64u);
  EXPECT_NE(request_id(get("/")), request_id(get("/")));
}

}  // namespace
}  // namespace penstock::api
