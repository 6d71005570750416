#include "store/digest.h"

#include <fstream>
#include <vector>

#include "base/error.h"

namespace penstock::store {

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
