// SHA-256, SHA-1 and git's blob hash, from OpenSSL. One owner thread; no I/O except digest_of_file.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace penstock::store {

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

/// The digest that an etag of the hub stands for: 64 hex digits are SHA-256 of the content, 40 are git's blob
/// hash (SHA-1 over "blob SIZE\0" and the content). Null for any other etag, which cannot be checked.
std::unique_ptr<Digest> digest_for_etag(std::string_view etag, uint64_t size_bytes);

/// Lower-case hex SHA-256 of a file. Throws Error(kIo), and kCancelled once `cancel` is set.
std::string sha256_of_file(const std::filesystem::path& path, const std::atomic<bool>* cancel = nullptr);

bool is_hex(std::string_view text, size_t digits);

}  // namespace penstock::store
