#include "base/digest.h"

#include <gtest/gtest.h>

namespace penstock::base {
namespace {

TEST(Digest, sha256_of_the_standards_example) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, hmac_sha256_of_rfc_4231) {
  EXPECT_EQ(hmac_sha256("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_NE(hmac_sha256("key", ""), hmac_sha256("other", ""));
}

TEST(Digest, random_bytes_differ) {
  const std::string first = random_hex(32);
  EXPECT_TRUE(is_hex(first, 64));
  EXPECT_NE(first, random_hex(32));
}

}  // namespace
}  // namespace penstock::base
