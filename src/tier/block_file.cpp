// The layout, little-endian: "PNSTKKV1", bytes of the header, tokens, groups (u32 each), fingerprint (32 hex
// digits), parent and key (2 x u64 each), token ids (i32), bytes of each group (u64), SHA-256 of the body (64
// hex digits), SHA-256 of all before (64 hex digits); then the body.
#include "tier/block_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/digest.h"
#include "base/error.h"
#include "base/whole_file.h"

namespace penstock::tier {
namespace {

using base::Code;
using base::Error;
using base::sha256;

static_assert(std::endian::native == std::endian::little, "headers are written as they lie in memory");

constexpr std::string_view kMagic = "PNSTKKV1";
constexpr size_t kFingerprintDigits = 32, kDigestDigits = 64;
constexpr size_t kMaxTokens = 1024;
constexpr uint64_t kMaxGroupBytes = uint64_t{1} << 32;

Error corrupt(const std::string& what) {
  return {Code::kCorrupt, "[tier.block_file] expected " + what};
}

std::string_view view(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// Takes values off the front of bytes that were found long enough.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> take(size_t n) {
    if (n > bytes_.size()) throw corrupt("a header that is all there");
    const auto front = bytes_.first(n);
    bytes_ = bytes_.subspan(n);
    return front;
  }
  template <class T>
  T value() {
    T out;
    std::memcpy(&out, take(sizeof(T)).data(), sizeof(T));
    return out;
  }
  std::string hex_digits(size_t n) {
    std::string text(view(take(n)));
    if (!base::is_hex(text, n)) throw corrupt("hex digits in a header");
    return text;
  }

 private:
  std::span<const std::byte> bytes_;
};

size_t header_bytes(size_t n_tokens, size_t n_groups) {
  return kMagic.size() + 3 * sizeof(uint32_t) + kFingerprintDigits + 4 * sizeof(uint64_t) +
         n_tokens * sizeof(int32_t) + n_groups * sizeof(uint64_t) + 2 * kDigestDigits;
}

std::string encode(const BlockHeader& header) {
  std::string out(kMagic);
  put(out, static_cast<uint32_t>(header_bytes(header.tokens.size(), header.group_bytes.size())));
  put(out, static_cast<uint32_t>(header.tokens.size()));
  put(out, static_cast<uint32_t>(header.group_bytes.size()));
  out += header.name.fingerprint;
  for (const cache::PrefixKey key : {header.parent, header.name.key}) {
    put(out, key.high);
    put(out, key.low);
  }
  for (const int32_t token : header.tokens) put(out, token);
  for (const uint64_t bytes : header.group_bytes) put(out, bytes);
  out += header.body_digest;
  out += sha256(out);
  return out;
}

std::string body_digest(std::span<const std::vector<std::byte>> groups) {
  base::Digest digest(base::Algorithm::kSha256);
  for (const auto& group : groups) digest.update(view(group));
  return digest.finish();
}

}  // namespace

uint64_t BlockHeader::body_bytes() const {
  uint64_t sum = 0;
  for (const uint64_t bytes : group_bytes) sum += bytes;
  return sum;
}

uint64_t BlockHeader::groups() const {
  uint64_t mask = 0;
  for (size_t g = 0; g < group_bytes.size(); ++g) mask |= uint64_t{group_bytes[g] > 0} << g;
  return mask;
}

uint64_t StoredBlock::bytes() const {
  uint64_t sum = 0;
  for (const auto& group : groups) sum += group.size();
  return sum;
}

uint64_t StoredBlock::mask() const {
  uint64_t mask = 0;
  for (size_t g = 0; g < groups.size(); ++g) mask |= uint64_t{!groups[g].empty()} << g;
  return mask;
}

std::string hex(cache::PrefixKey key) {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(key.high),
                static_cast<unsigned long long>(key.low));
  return text.data();
}

BlockHeader parse_header(std::span<const std::byte> front, uint64_t file_bytes) {
  Reader reader(front);
  if (view(reader.take(kMagic.size())) != kMagic) throw corrupt("a file of a cached block");
  const auto size = reader.value<uint32_t>();
  const auto n_tokens = reader.value<uint32_t>(), n_groups = reader.value<uint32_t>();
  if (n_tokens == 0 || n_tokens > kMaxTokens || n_groups == 0 || n_groups > kMaxGroups) {
    throw corrupt("at least one token and KV group in a header, and not too many");
  }
  if (size != header_bytes(n_tokens, n_groups) || size > front.size()) throw corrupt("a whole header");
  BlockHeader header;
  header.name.fingerprint = reader.hex_digits(kFingerprintDigits);
  for (cache::PrefixKey* key : {&header.parent, &header.name.key}) {
    key->high = reader.value<uint64_t>();
    key->low = reader.value<uint64_t>();
  }
  for (uint32_t i = 0; i < n_tokens; ++i) header.tokens.push_back(reader.value<int32_t>());
  for (uint32_t g = 0; g < n_groups; ++g) {
    header.group_bytes.push_back(reader.value<uint64_t>());
    if (header.group_bytes.back() > kMaxGroupBytes) throw corrupt("groups of a possible size in a header");
  }
  header.body_digest = reader.hex_digits(kDigestDigits);
  if (reader.hex_digits(kDigestDigits) != sha256(view(front.first(size - kDigestDigits)))) {
    throw corrupt("a header with the digest that it names");
  }
  if (file_bytes != size + header.body_bytes()) {
    throw corrupt("a file of " + std::to_string(size + header.body_bytes()) + " bytes; got " +
                  std::to_string(file_bytes));
  }
  if (cache::extend(header.parent, header.tokens) != header.name.key) {
    throw corrupt("tokens that make the key of the header");
  }
  return header;
}

BlockHeader read_header(const std::filesystem::path& path) {
  std::error_code error;
  const uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) throw Error(Code::kIo, "[tier.block_file] expected a file; got " + path.string());
  const std::string front = base::read_front(path, kMaxHeaderBytes);
  return parse_header(std::as_bytes(std::span(front)), file_bytes);
}

StoredBlock read_block(const std::filesystem::path& path, const BlockName& name) {
  std::error_code error;
  const uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) throw Error(Code::kIo, "[tier.block_file] expected a file; got " + path.string());
  const std::string bytes = base::read_front(path, file_bytes);
  if (bytes.size() != file_bytes) throw corrupt("a file that does not shrink");
  const std::span<const std::byte> all = std::as_bytes(std::span(bytes));
  BlockHeader header = parse_header(all, file_bytes);
  if (header.name != name) throw corrupt("the block that the name of " + path.string() + " promises");
  StoredBlock block{header.name.key, header.parent, std::move(header.tokens), {}};
  std::span<const std::byte> rest = all.last(header.body_bytes());
  for (const uint64_t n : header.group_bytes) {
    block.groups.emplace_back(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(n));
    rest = rest.subspan(n);
  }
  if (body_digest(block.groups) != header.body_digest) throw corrupt("a body with the digest of its header");
  return block;
}

uint64_t write_block(const std::filesystem::path& path, const Fingerprint& fingerprint,
                     const StoredBlock& block) {
  BlockHeader header{{fingerprint, block.key}, block.parent, block.tokens, {}, body_digest(block.groups)};
  for (const auto& group : block.groups) header.group_bytes.push_back(group.size());
  const std::string head = encode(header);
  std::vector<std::string_view> pieces{head};
  for (const auto& group : block.groups) pieces.push_back(view(group));
  base::write_whole(path, pieces, base::Durable::kNo);
  return head.size() + header.body_bytes();
}

}  // namespace penstock::tier
