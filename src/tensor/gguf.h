// Reads GGUF files, versions 2 and 3, little endian: typed metadata and the tensor table. The reader trusts
// nothing in the file: after parsing, every tensor lies inside it and overlaps no other. Any thread. Split
// files are refused.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/stored_tensor.h"

namespace penstock::tensor {

/// A metadata array of arrays: read past, never used.
struct GgufNestedArray {};

/// One metadata value. Text points into the file.
using GgufValue = std::variant<int64_t, uint64_t, double, bool, std::string_view, std::vector<int64_t>,
                               std::vector<float>, std::vector<std::string_view>, GgufNestedArray>;

/// What a ggml tensor type is called and how it is blocked.
struct GgmlType {
  uint32_t id;
  std::string_view name;  // "Q4_K"
  int block_elements;
  int block_bytes;
};

/// Every type of ggml, also those that quant cannot read; null for an unknown id.
const GgmlType* find_ggml_type(uint32_t id);

class Gguf {
 public:
  /// Parses a whole file held in `bytes`; `what` names it in errors. Views and strings point into `bytes`.
  /// Throws Error: kCorrupt, or kUnsupported for version 1, big endian and split files.
  static Gguf parse(std::span<const std::byte> bytes, const std::string& what);

  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }

  /// Null when the key is absent.
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Each throws Error(kCorrupt) naming the key when it is absent or of another type. integer() takes every
  // integer type, number() also those. integers() takes arrays of integers and bools, numbers() arrays of
  // integers and floats.
  int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  bool boolean(std::string_view key) const;
  std::string_view text(std::string_view key) const;
  std::span<const int64_t> integers(std::string_view key) const;
  std::span<const float> numbers(std::string_view key) const;
  std::span<const std::string_view> texts(std::string_view key) const;

  // The same with a value for an absent key; a value of the wrong type is still an error.
  int64_t integer_or(std::string_view key, int64_t otherwise) const {
    return has(key) ? integer(key) : otherwise;
  }
  double number_or(std::string_view key, double otherwise) const {
    return has(key) ? number(key) : otherwise;
  }
  std::string_view text_or(std::string_view key, std::string_view otherwise) const {
    return has(key) ? text(key) : otherwise;
  }

 private:
  friend class GgufParser;

  const GgufValue& get(std::string_view key, std::string_view expected) const;

  std::string what_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace penstock::tensor
