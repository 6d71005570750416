// A typed window on stored bytes: row-major, little endian, not owning, maybe unaligned. Valid while the
// checkpoint that gave it lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace penstock::tensor {

using Shape = std::vector<int64_t>;

struct View {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;

  int64_t elements() const { return static_cast<int64_t>(bytes.size() / size_bytes(dtype)); }

  /// True when `bytes` may be read in place as an array of its dtype.
  bool aligned() const { return reinterpret_cast<uintptr_t>(bytes.data()) % size_bytes(dtype) == 0; }
};

/// "[2, 3]"
std::string to_string(const Shape& shape);

/// Elements [first, first + out.size()) of an f32, f16 or bf16 view as float32, exactly.
/// Throws Error(kCorrupt) for another dtype or past the end.
void read_f32(const View& view, int64_t first, std::span<float> out);

/// Rounds to an f32, f16 or bf16 array (nearest, ties to even) of values.size() elements at `out`. Throws
/// Error(kInternal) for another dtype.
void write_f32(std::span<const float> values, DType dtype, std::byte* out);

/// All of an f32, f16 or bf16 view as float32.
std::vector<float> to_f32(const View& view);

/// Unaligned little-endian load; the caller has checked the bounds.
template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace penstock::tensor
