// The GGUF K formats: super-blocks of 256 columns whose group scales are small integers times one f16.
#include <array>

#include "quant/gguf_block.h"
#include "tensor/view.h"

namespace penstock::quant {
namespace {

uint16_t half(const std::byte* at) {
  return tensor::load<uint16_t>(at);
}

uint8_t byte(const std::byte* at, int i) {
  return static_cast<uint8_t>(at[i]);
}

/// Two-bit fields: half n (128 columns) has 32 bytes; shift 2k gives columns 128n + 32k ... +31.
void two_bits(const std::byte* at, uint8_t* codes) {
  for (int c = 0; c < 256; ++c) codes[c] = (byte(at, c / 128 * 32 + c % 32) >> (c % 128 / 32 * 2)) & 3;
}

/// Nibbles of Q4_K and Q5_K: each 32 bytes hold 64 columns, low nibbles first.
void nibble_pairs(const std::byte* at, uint8_t* codes) {
  for (int c = 0; c < 256; ++c) codes[c] = (byte(at, c / 64 * 32 + c % 32) >> (c % 64 / 32 * 4)) & 15;
}

/// Eight 6-bit scales and eight 6-bit minimums in 12 bytes.
void scales_and_minimums(const std::byte* block, NestedBlock& out) {
  out.d = half(block);
  out.dmin = half(block + 2);
  const std::byte* packed = block + 4;
  for (int g = 0; g < 8; ++g) {
    int scale = byte(packed, g % 4) & 63;
    int minimum = byte(packed, 4 + g % 4) & 63;
    if (g >= 4) {
      const int low = byte(packed, 8 + g % 4);
      scale = (low & 15) | ((byte(packed, g % 4) >> 2) & 0x30);
      minimum = (low >> 4) | ((byte(packed, 4 + g % 4) >> 2) & 0x30);
    }
    out.scales[g] = static_cast<int8_t>(scale);
    out.minimums[g] = static_cast<uint8_t>(minimum);
  }
}

void unpack_q2(const std::byte* block, NestedBlock& out) {
  out.d = half(block + 80);
  out.dmin = half(block + 82);
  for (int g = 0; g < 16; ++g) {
    out.scales[g] = static_cast<int8_t>(byte(block, g) & 15);
    out.minimums[g] = byte(block, g) >> 4;
  }
  two_bits(block + 16, out.codes);
}

void unpack_q3(const std::byte* block, NestedBlock& out) {
  const std::byte* mask = block;         // 32 bytes: bit k of byte i is the high bit of column 32k + i
  const std::byte* scales = block + 96;  // 16 scales of 6 bits: 8 bytes of nibbles, 4 bytes of high pairs
  out.d = half(block + 108);
  for (int g = 0; g < 16; ++g) {
    const int low = (byte(scales, g % 8) >> (g / 8 * 4)) & 15;
    const int high = (byte(scales, 8 + g % 4) >> (g / 4 * 2)) & 3;
    out.scales[g] = static_cast<int8_t>((low | (high << 4)) - 32);
  }
  two_bits(block + 32, out.codes);
  for (int c = 0; c < 256; ++c)
    out.codes[c] |= static_cast<uint8_t>(((byte(mask, c % 32) >> (c / 32)) & 1) << 2);
}

void unpack_q4(const std::byte* block, NestedBlock& out) {
  scales_and_minimums(block, out);
  nibble_pairs(block + 16, out.codes);
}

void unpack_q5(const std::byte* block, NestedBlock& out) {
  scales_and_minimums(block, out);
  nibble_pairs(block + 48, out.codes);
  for (int c = 0; c < 256; ++c) {
    out.codes[c] |= static_cast<uint8_t>(((byte(block, 16 + c % 32) >> (c / 32)) & 1) << 4);
  }
}

void unpack_q6(const std::byte* block, NestedBlock& out) {
  const std::byte* low = block;         // 128 bytes: each 64 hold 128 columns, low nibbles first
  const std::byte* high = block + 128;  // 64 bytes of two-bit fields
  out.d = half(block + 208);
  for (int g = 0; g < 16; ++g) out.scales[g] = static_cast<int8_t>(block[192 + g]);
  two_bits(high, out.codes);
  for (int c = 0; c < 256; ++c) {
    const int nibble = (byte(low, c / 128 * 64 + c % 64) >> (c % 128 / 64 * 4)) & 15;
    out.codes[c] = static_cast<uint8_t>((out.codes[c] << 4) | nibble);
  }
}

constexpr std::array kFormats = std::to_array<BlockFormat>({
    {"q2_K", "GGUF Q2_K: 2 bits in groups of 16, 4-bit scales and minimums", 256, 84, 2, 16, -1, nullptr,
     unpack_q2},
    {"q3_K", "GGUF Q3_K: 3 bits in groups of 16, 6-bit scales", 256, 110, 3, 16, 4, nullptr, unpack_q3},
    {"q4_K", "GGUF Q4_K: 4 bits in groups of 32, 6-bit scales and minimums", 256, 144, 4, 32, -1, nullptr,
     unpack_q4},
    {"q5_K", "GGUF Q5_K: 5 bits in groups of 32, 6-bit scales and minimums", 256, 176, 5, 32, -1, nullptr,
     unpack_q5},
    {"q6_K", "GGUF Q6_K: 6 bits in groups of 16, 8-bit scales", 256, 210, 6, 16, 32, nullptr, unpack_q6},
});

}  // namespace

std::span<const BlockFormat> k_block_formats() {
  return kFormats;
}

}  // namespace penstock::quant
