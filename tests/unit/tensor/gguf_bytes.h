// Writes GGUF bytes, valid or deliberately not. Test code only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tensor {

class GgufBytes {
 public:
  explicit GgufBytes(uint32_t version = 3) : version_(version) {}

  GgufBytes& key(std::string_view name, uint32_t type) {
    ++pairs_;
    put_text(metadata_, name);
    put(metadata_, type);
    return *this;
  }

  GgufBytes& u32(std::string_view name, uint32_t value) {
    key(name, 4);
    put(metadata_, value);
    return *this;
  }

  GgufBytes& text(std::string_view name, std::string_view value) {
    key(name, 8);
    put_text(metadata_, value);
    return *this;
  }

  /// An array head without its values.
  GgufBytes& array(std::string_view name, uint32_t type, uint64_t count) {
    key(name, 9);
    put(metadata_, type);
    put(metadata_, count);
    return *this;
  }

  /// The values of an array() before it.
  GgufBytes& raw(std::string_view bytes) {
    metadata_ += bytes;
    return *this;
  }

  GgufBytes& flag(std::string_view name, bool value) {
    key(name, 7);
    put(metadata_, static_cast<uint8_t>(value));
    return *this;
  }

  GgufBytes& texts(std::string_view name, const std::vector<std::string_view>& values) {
    array(name, 8, values.size());
    for (const std::string_view value : values) put_text(metadata_, value);
    return *this;
  }

  /// Arrays within arrays, `depth` deep, around no numbers.
  GgufBytes& nested(std::string_view name, int depth) {
    array(name, 9, 1);
    for (int i = 1; i < depth; ++i) {
      put(metadata_, uint32_t{9});
      put(metadata_, uint64_t{1});
    }
    put(metadata_, uint32_t{4});
    put(metadata_, uint64_t{0});
    return *this;
  }

  /// A key whose length is a lie.
  GgufBytes& raw_key(uint64_t length, std::string_view bytes) {
    ++pairs_;
    put(metadata_, length);
    metadata_ += bytes;
    return *this;
  }

  /// Dimensions in the file's own order, fastest first.
  GgufBytes& tensor(std::string_view name, const std::vector<uint64_t>& dimensions, uint32_t type,
                    uint64_t offset) {
    ++tensors_;
    put_text(table_, name);
    put(table_, static_cast<uint32_t>(dimensions.size()));
    for (const uint64_t n : dimensions) put(table_, n);
    put(table_, type);
    put(table_, offset);
    return *this;
  }

  GgufBytes& pairs(uint64_t count) {
    claimed_pairs_ = count;
    return *this;
  }

  GgufBytes& tensors(uint64_t count) {
    claimed_tensors_ = count;
    return *this;
  }

  std::string finish(size_t data_bytes = 0) const {
    std::string out = "GGUF";
    put(out, version_);
    put(out, claimed_tensors_.value_or(tensors_));
    put(out, claimed_pairs_.value_or(pairs_));
    out += metadata_ + table_;
    if (data_bytes) out.resize((out.size() + 31) / 32 * 32);
    return out + std::string(data_bytes, '\1');
  }

 private:
  template <class T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  static void put_text(std::string& out, std::string_view text) {
    put(out, static_cast<uint64_t>(text.size()));
    out += text;
  }

  uint32_t version_;
  uint64_t pairs_ = 0;
  uint64_t tensors_ = 0;
  std::optional<uint64_t> claimed_pairs_;
  std::optional<uint64_t> claimed_tensors_;
  std::string metadata_;
  std::string table_;
};

}  // namespace penstock::tensor
