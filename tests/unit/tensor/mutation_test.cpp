// Random damage to small valid files: the readers must refuse or read, never crash or leave the file. The
// address sanitizer preset makes an out-of-bounds read visible; every view that comes back is also read here.
#include <gtest/gtest.h>

#include "base/hash.h"
#include "tensor/gguf.h"
#include "tensor/safetensors.h"
#include "unit/tensor/gguf_bytes.h"
#include "unit/tensor/temporary_directory.h"

namespace penstock::tensor {
namespace {

constexpr int kMutations = 4000;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t bound) { return base::splitmix64(state_++) % bound; }

 private:
  uint64_t state_;
};

/// One to four edits: a byte, a bit, eight bytes of an extreme number, a cut, a repeated or removed stretch.
std::string mutate(std::string bytes, Random& random) {
  static constexpr uint64_t kExtremes[] = {0,          1,          ~0ull, 1ull << 63, (1ull << 63) - 1,
                                           1ull << 32, 0xffffffff, 255};
  const uint64_t edits = 1 + random.below(4);
  for (uint64_t i = 0; i < edits && !bytes.empty(); ++i) {
    const size_t at = random.below(bytes.size());
    const size_t length = std::min<size_t>(1 + random.below(24), bytes.size() - at);
    switch (random.below(6)) {
      case 0:
        bytes[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        break;
      case 2: {
        const uint64_t extreme = kExtremes[random.below(std::size(kExtremes))];
        std::memcpy(&bytes[at], &extreme, std::min<size_t>(8, bytes.size() - at));
        break;
      }
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.insert(at, bytes.substr(at, length));
        break;
      default:
        bytes.erase(at, length);
    }
  }
  return bytes;
}

/// Reads every byte of a view, so that the sanitizer sees a bad one.
uint64_t checksum(std::span<const std::byte> bytes) {
  return base::fnv1a({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// An allocation of exactly the file's size: reading past it is out of bounds.
template <class Parse>
int accepted_of(const std::string& valid, Parse parse) {
  Random random(42);
  int accepted = 0;
  for (int i = 0; i < kMutations; ++i) {
    const std::string damaged = mutate(valid, random);
    const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(damaged.data()),
                                       reinterpret_cast<const std::byte*>(damaged.data()) + damaged.size());
    if (error_of([&] { parse(bytes); }).empty()) ++accepted;
  }
  return accepted;
}

TEST(Mutations, Safetensors) {
  const std::string header =
      R"({"__metadata__":{"format":"mlx"},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},"c":{"dtype":"F8_E5M2","shape":[4],"data_offsets":[32,36]}})";
  const uint64_t length = header.size();
  const std::string valid =
      std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(36, '\2');
  uint64_t sum = 0;
  const int accepted = accepted_of(valid, [&](std::span<const std::byte> bytes) {
    for (const StoredTensor& tensor : parse_safetensors(bytes, "m").tensors) sum += checksum(tensor.bytes);
  });
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, kMutations / 2);
  EXPECT_NE(sum, 0u);
}

TEST(Mutations, Gguf) {
  const std::string valid = GgufBytes()
                                .text("general.architecture", "llama")
                                .u32("general.alignment", 32)
                                .texts("tokenizer.ggml.tokens", {"<s>", "a", "b"})
                                .nested("n", 2)
                                .tensor("a.weight", {32, 2}, 2, 0)
                                .tensor("b", {4}, 0, 64)
                                .finish(96);
  ASSERT_NO_THROW(Gguf::parse(std::as_bytes(std::span(valid)), "m"));
  uint64_t sum = 0;
  const int accepted = accepted_of(valid, [&](std::span<const std::byte> bytes) {
    const Gguf gguf = Gguf::parse(bytes, "m");
    for (const StoredTensor& tensor : gguf.tensors()) sum += checksum(tensor.bytes);
    for (const auto& [key, value] : gguf.metadata()) {
      if (const auto* text = std::get_if<std::string_view>(&value)) sum += base::fnv1a(*text);
    }
  });
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, kMutations);
  EXPECT_NE(sum, 0u);
}

}  // namespace
}  // namespace penstock::tensor
