// SHA-256, SHA-1, keyed digests and random bytes for keys, from OpenSSL. A Digest has one owner thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace penstock::base {

enum class Algorithm { kSha256, kSha1 };

class Digest {
 public:
  explicit Digest(Algorithm algorithm);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void update(std::string_view bytes);
  /// Lower-case hex; the digest is used up.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// SHA-256 of all the bytes, 64 hex digits.
std::string sha256(std::string_view bytes);

/// HMAC with SHA-256 (RFC 2104), 64 hex digits.
std::string hmac_sha256(std::string_view key, std::string_view bytes);

/// Bytes that nobody can guess, as hex digits, two for each.
std::string random_hex(size_t bytes);

bool is_hex(std::string_view text, size_t digits);

}  // namespace penstock::base
