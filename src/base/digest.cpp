#include "base/digest.h"

#include <algorithm>
#include <array>
#include <vector>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/error.h"

namespace penstock::base {
namespace {

std::string hex_of(const unsigned char* bytes, size_t count) {
  std::string hex;
  for (size_t i = 0; i < count; ++i) {
    hex += "0123456789abcdef"[bytes[i] >> 4];
    hex += "0123456789abcdef"[bytes[i] & 15];
  }
  return hex;
}

}  // namespace

struct Digest::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(evp); }
};

Digest::Digest(Algorithm algorithm) : context_(std::make_unique<Context>()) {
  const EVP_MD* kind = algorithm == Algorithm::kSha256 ? EVP_sha256() : EVP_sha1();
  if (context_->evp == nullptr || EVP_DigestInit_ex(context_->evp, kind, nullptr) != 1) {
    throw Error(Code::kInternal, "[base.digest] expected the digest to start; OpenSSL refused");
  }
}

Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(std::string_view bytes) {
  EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size());
}

std::string Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int length = 0;
  EVP_DigestFinal_ex(context_->evp, raw.data(), &length);
  return hex_of(raw.data(), length);
}

std::string sha256(std::string_view bytes) {
  Digest digest(Algorithm::kSha256);
  digest.update(bytes);
  return digest.finish();
}

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), raw.data(),
           &length) == nullptr) {
    throw Error(Code::kInternal, "[base.digest] expected a keyed digest; OpenSSL refused");
  }
  return hex_of(raw.data(), length);
}

std::string random_hex(size_t bytes) {
  std::vector<unsigned char> raw(bytes);
  if (RAND_bytes(raw.data(), static_cast<int>(bytes)) != 1) {
    throw Error(Code::kInternal, "[base.digest] expected random bytes; OpenSSL has none");
  }
  return hex_of(raw.data(), raw.size());
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace penstock::base
