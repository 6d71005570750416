#include "pool/fingerprint.h"

#include <algorithm>

#include "base/digest.h"
#include "tensor/mapped_file.h"

namespace penstock::pool {
namespace {

constexpr size_t kSamples = 64,
                 kSampleBytes = 4096;  // of a file, evenly spread, its front and end among them

void add_samples(base::Digest& digest, std::span<const std::byte> bytes) {
  const size_t size = std::min(bytes.size(), kSampleBytes);
  for (size_t i = 0; i < kSamples; ++i) {
    const size_t at = (bytes.size() - size) / (kSamples - 1) * i;
    digest.update({reinterpret_cast<const char*>(bytes.data()) + at, size});
  }
  digest.update({reinterpret_cast<const char*>(bytes.data()) + (bytes.size() - size), size});
}

}  // namespace

tier::Fingerprint fingerprint_of(const models::ModelFiles& files, const exec::Caps& caps) {
  base::Digest digest(base::Algorithm::kSha256);
  digest.update("penstock " PENSTOCK_VERSION "\n" + caps.block_format + "\n" +
                std::to_string(caps.block_tokens) + "\n" + files.config.dump() + "\n");
  for (const auto& file : files.checkpoint->files()) {
    digest.update(std::to_string(file->bytes().size()) + "\n");
    add_samples(digest, file->bytes());
  }
  return digest.finish().substr(0, 32);
}

}  // namespace penstock::pool
