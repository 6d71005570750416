#include "base/error.h"

#include <gtest/gtest.h>

namespace penstock::base {
namespace {

TEST(Error, TextLeavesOutTheOperation) {
  EXPECT_EQ(Error(Code::kNotFound, "[store.resolve] expected a model; got x").text(),
            "expected a model; got x");
  EXPECT_EQ(Error(Code::kNotFound, "plain").text(), "plain");
}

}  // namespace
}  // namespace penstock::base
