#include "store/package_source.h"

#include <gtest/gtest.h>

namespace penstock::store {
namespace {

TEST(ResolveUrl, AsABrowserDoes) {
  const std::string base = "https://u:p@h.example/simple/pkg/";
  EXPECT_EQ(resolve_url(base, "../../packages/a.whl"), "https://u:p@h.example/packages/a.whl");
  EXPECT_EQ(resolve_url(base, "a.whl?x=../y"), "https://u:p@h.example/simple/pkg/a.whl?x=../y");
  EXPECT_EQ(resolve_url(base, "/p/a.whl"), "https://u:p@h.example/p/a.whl");
  EXPECT_EQ(resolve_url(base, "//other/a.whl"), "https://other/a.whl");
  EXPECT_EQ(resolve_url("http://h", "a"), "http://h/a");
}

TEST(ResolveUrl, CredentialsStayOnTheirHost) {
  const std::string base = "https://u:p@h.example/simple/pkg/";
  EXPECT_EQ(resolve_url(base, "https://h.example/x"), "https://u:p@h.example/x");
  EXPECT_EQ(resolve_url(base, "https://files.example/x"), "https://files.example/x");
  EXPECT_EQ(resolve_url(base, "http://h.example/x"), "http://h.example/x");
}

const std::string kSha(64, 'a');

TEST(ArchiveUrl, Json) {
  const std::string page = R"({"files": [{"filename": "x", "hashes": {}, "url": "no"},
    {"filename": "y.whl", "hashes": {"sha256": ")" +
                           kSha + R"("}, "url": "https://f/y.whl"}]})";
  EXPECT_EQ(archive_url(page, "https://h/simple/y/", kSha), "https://f/y.whl");
  EXPECT_EQ(archive_url(page, "https://h/simple/y/", std::string(64, 'b')), "");
}

TEST(ArchiveUrl, Html) {
  const std::string page =
      "<!DOCTYPE html><a href=\"../../p/x.whl#sha256=" + std::string(64, 'b') +
      "\">x</a><a data-requires-python='&gt;=3' href='../../p/y.whl?a=1&amp;b=2#sha256=" + kSha + "'>y</a>";
  EXPECT_EQ(archive_url(page, "https://h/simple/y/", kSha), "https://h/p/y.whl?a=1&b=2");
  EXPECT_EQ(archive_url("<html></html>", "https://h/simple/y/", kSha), "");
}

}  // namespace
}  // namespace penstock::store
