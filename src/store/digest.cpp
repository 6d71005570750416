#include "store/digest.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include <openssl/evp.h>

#include "base/error.h"

namespace penstock::store {

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
    throw base::Error(base::Code::kInternal, "[store.digest] expected the digest to start; OpenSSL refused");
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
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) {
    hex += "0123456789abcdef"[raw[i] >> 4];
    hex += "0123456789abcdef"[raw[i] & 15];
  }
  return hex;
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::unique_ptr<Digest> digest_for_etag(std::string_view etag, uint64_t size_bytes) {
  if (is_hex(etag, 64)) return std::make_unique<Digest>(Algorithm::kSha256);
  if (!is_hex(etag, 40)) return nullptr;
  auto digest = std::make_unique<Digest>(Algorithm::kSha1);
  const std::string head = "blob " + std::to_string(size_bytes);
  digest->update({head.c_str(), head.size() + 1});
  return digest;
}

std::string sha256_of_file(const std::filesystem::path& path, const std::atomic<bool>* cancel) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw base::Error(base::Code::kIo, "[store.digest] expected a readable file; got " + path.string());
  Digest digest(Algorithm::kSha256);
  std::vector<char> buffer(1 << 20);
  while (file) {
    if (cancel != nullptr && cancel->load()) {
      throw base::Error(base::Code::kCancelled,
                        "[store.digest] expected to read " + path.string() + "; was stopped");
    }
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    digest.update({buffer.data(), static_cast<size_t>(file.gcount())});
  }
  return digest.finish();
}

}  // namespace penstock::store
