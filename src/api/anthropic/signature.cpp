#include "api/anthropic/signature.h"

#include <utility>

#include "api/access.h"
#include "base/digest.h"
#include "base/error.h"

namespace penstock::api::anthropic {
namespace {

constexpr size_t kKeyBytes = 32;  // of one that is made up
constexpr size_t kMinKeyLength = 16;

std::string checked_key(std::string key) {
  if (key.empty()) return base::random_hex(kKeyBytes);
  if (key.size() >= kMinKeyLength) return key;
  throw base::Error(base::Code::kInvalidRequest, "[anthropic.signature] expected a signing_key of at least " +
                                                     std::to_string(kMinKeyLength) + " characters; got " +
                                                     std::to_string(key.size()));
}

}  // namespace

Signer::Signer(std::string key) : key_(checked_key(std::move(key))) {}

std::string Signer::sign(std::string_view thinking) const {
  return base::hmac_sha256(key_, thinking);
}

bool Signer::is_signed(std::string_view thinking, std::string_view signature) const {
  return equal_in_constant_time(signature, sign(thinking));
}

}  // namespace penstock::api::anthropic
