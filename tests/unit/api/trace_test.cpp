#include "api/trace.h"

#include <gtest/gtest.h>

namespace penstock::api {
namespace {

constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";
const std::string kValid = std::string("00-") + kTrace + "-b7ad6b7169203331-01";

std::string with(size_t at, const std::string& text) {
  return std::string(kValid).replace(at, text.size(), text);
}

TEST(Trace, the_id_of_a_valid_header_is_taken) {
  EXPECT_EQ(trace_id(kValid), kTrace);
  EXPECT_EQ(trace_id(with(53, "00")), kTrace) << "not sampled";
  EXPECT_EQ(trace_id(with(53, "ff")), kTrace) << "flags that are not known yet";
}

TEST(Trace, a_later_version_may_have_more_behind_a_dash) {
  EXPECT_EQ(trace_id(with(0, "cc")), kTrace);
  EXPECT_EQ(trace_id(with(0, "cc") + "-what-the-future-will-be-like"), kTrace);
  EXPECT_EQ(trace_id(with(0, "cc") + "-"), kTrace);
  EXPECT_EQ(trace_id(with(0, "cc") + ".more"), "") << "no dash";
  EXPECT_EQ(trace_id(kValid + "-more"), "") << "not in version 00";
  EXPECT_EQ(trace_id(with(0, "ff")), "") << "no version ever";
}

TEST(Trace, whatever_else_is_there_counts_as_none) {
  for (const std::string& text : {std::string(), kValid.substr(0, 54), kValid + "1", " " + kValid}) {
    EXPECT_EQ(trace_id(text), "") << text;
  }
  for (const size_t dash : {2, 35, 52}) EXPECT_EQ(trace_id(with(dash, "_")), "") << dash;
  for (const size_t digit : {0, 1, 3, 34, 36, 51, 53, 54}) {
    EXPECT_EQ(trace_id(with(digit, "g")), "") << digit;
    EXPECT_EQ(trace_id(with(digit, "A")), "") << "lower case only, at " << digit;
  }
  EXPECT_EQ(trace_id(with(3, std::string(32, '0'))), "") << "an all-zero trace";
  EXPECT_EQ(trace_id(with(36, std::string(16, '0'))), "") << "an all-zero parent";
}

TEST(Trace, the_origin_of_a_request_is_its_surface_and_what_its_headers_say) {
  http::Request request;
  request.headers = {{"X-Request-Id", "mine-1"}, {"Traceparent", kValid}};
  const chat::Origin origin = origin_of(request, "openai_chat");
  EXPECT_EQ(origin.surface, "openai_chat");
  EXPECT_EQ(origin.request_id, "mine-1");
  EXPECT_EQ(origin.trace_id, kTrace);
  const chat::Origin bare = origin_of({}, "openai_chat");
  EXPECT_TRUE(bare.request_id.starts_with("req_")) << bare.request_id;
  EXPECT_EQ(bare.trace_id, "");
}

}  // namespace
}  // namespace penstock::api
