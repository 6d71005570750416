// What every GGUF block format shares: a row is a sequence of blocks, a block unpacks to unsigned codes with
// a scale and perhaps an offset per group. Internal to quant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::quant {

inline constexpr int kMaxBlockColumns = 256;
inline constexpr int kMaxBlockGroups = 16;

/// One block in integer form; symmetric formats leave `biases` alone.
struct BlockCodes {
  uint8_t* codes;  // [columns]
  float* scales;   // [columns / group]
  float* biases;   // [columns / group]
};

/// One block of a K format as it is stored: scale[g] = d * scales[g], bias[g] = -(dmin * minimums[g]).
struct NestedBlock {
  uint8_t* codes;            // [columns]
  int8_t* scales;            // [columns / group]
  uint8_t* minimums;         // [columns / group]; symmetric formats leave them alone
  uint16_t d = 0, dmin = 0;  // half precision
};

struct BlockFormat {
  std::string_view name;
  std::string_view text;
  int columns;  // of a block
  int bytes;    // of a block
  int bits;     // of a code
  int group;    // columns that share a scale
  int zero;     // symmetric: value = scale * (code - zero); -1: value = scale * code + bias
  void (*unpack)(const std::byte* block, BlockCodes out);           // null: nested
  void (*unpack_nested)(const std::byte* block, NestedBlock& out);  // null: unpack
};

std::span<const BlockFormat> simple_block_formats();  // gguf_simple.cpp
std::span<const BlockFormat> k_block_formats();       // gguf_k.cpp

}  // namespace penstock::quant
