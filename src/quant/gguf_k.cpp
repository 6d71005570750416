// The GGUF K formats: super-blocks of 256 columns whose group scales are small integers times one f16.
#include <array>
#include <cstring>

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

// Codes are moved eight at a time, in the bytes of a word: loading a model is mostly this.

uint64_t word(const std::byte* at) {
  return tensor::load<uint64_t>(at);
}

void put(uint8_t* codes, uint64_t word) {
  std::memcpy(codes, &word, sizeof(word));
}

uint64_t bytes_of(uint8_t mask) {
  return mask * uint64_t{0x0101010101010101};
}

/// Adds to 256 codes: bit k of byte i of 32 is bit `to` of column 32k + i.
void add_bits(const std::byte* at, int to, uint8_t* codes) {
  for (int k = 0; k < 8; ++k)
    for (int i = 0; i < 32; i += 8) {
      uint8_t* eight = codes + 32 * k + i;
      uint64_t sum = 0;
      std::memcpy(&sum, eight, sizeof(sum));
      put(eight, sum | (word(at + i) >> k & bytes_of(1)) << to);
    }
}

/// Two-bit fields: half n (128 columns) has 32 bytes; shift 2k gives columns 128n + 32k ... +31.
void two_bits(const std::byte* at, uint8_t* codes) {
  for (int n = 0; n < 2; ++n)
    for (int k = 0; k < 4; ++k)
      for (int i = 0; i < 32; i += 8)
        put(codes + 128 * n + 32 * k + i, word(at + 32 * n + i) >> 2 * k & bytes_of(3));
}

/// Nibbles of Q4_K and Q5_K: each 32 bytes hold 64 columns, low nibbles first.
void nibble_pairs(const std::byte* at, uint8_t* codes) {
  for (int n = 0; n < 4; ++n)
    for (int i = 0; i < 32; i += 8) {
      const uint64_t pairs = word(at + 32 * n + i);
      put(codes + 64 * n + i, pairs & bytes_of(15));
      put(codes + 64 * n + 32 + i, pairs >> 4 & bytes_of(15));
    }
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
  add_bits(mask, 2, out.codes);
}

void unpack_q4(const std::byte* block, NestedBlock& out) {
  scales_and_minimums(block, out);
  nibble_pairs(block + 16, out.codes);
}

void unpack_q5(const std::byte* block, NestedBlock& out) {
  scales_and_minimums(block, out);
  nibble_pairs(block + 48, out.codes);
  add_bits(block + 16, 4, out.codes);
}

void unpack_q6(const std::byte* block, NestedBlock& out) {
  const std::byte* low = block;         // 128 bytes: each 64 hold 128 columns, low nibbles first
  const std::byte* high = block + 128;  // 64 bytes of two-bit fields
  out.d = half(block + 208);
  for (int g = 0; g < 16; ++g) out.scales[g] = static_cast<int8_t>(block[192 + g]);
  for (int c = 0; c < 256; c += 8) {
    const uint64_t nibbles = word(low + c / 128 * 64 + c % 64) >> c % 128 / 64 * 4 & bytes_of(15);
    const uint64_t pairs = word(high + c / 128 * 32 + c % 32) >> c % 128 / 32 * 2 & bytes_of(3);
    put(out.codes + c, nibbles | pairs << 4);
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
