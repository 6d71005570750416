// The GGUF formats with one f16 scale (and maybe one f16 minimum) per 32 columns. In a block, byte i of the
// nibbles holds column i (low) and column i + 16 (high).
#include <array>

#include "quant/gguf_block.h"
#include "tensor/view.h"

namespace penstock::quant {
namespace {

constexpr int kColumns = 32;

float half(const std::byte* at) {
  return tensor::f16_to_f32(tensor::load<uint16_t>(at));
}

void nibbles(const std::byte* at, uint8_t* codes) {
  for (int i = 0; i < kColumns / 2; ++i) {
    const auto pair = static_cast<uint8_t>(at[i]);
    codes[i] = pair & 15;
    codes[i + kColumns / 2] = pair >> 4;
  }
}

void fifth_bits(const std::byte* at, uint8_t* codes) {
  const auto high = tensor::load<uint32_t>(at);
  for (int i = 0; i < kColumns; ++i) codes[i] |= static_cast<uint8_t>(((high >> i) & 1) << 4);
}

void unpack_q4_0(const std::byte* block, BlockCodes out) {
  out.scales[0] = half(block);
  nibbles(block + 2, out.codes);
}

void unpack_q4_1(const std::byte* block, BlockCodes out) {
  out.scales[0] = half(block);
  out.biases[0] = half(block + 2);
  nibbles(block + 4, out.codes);
}

void unpack_q5_0(const std::byte* block, BlockCodes out) {
  out.scales[0] = half(block);
  nibbles(block + 6, out.codes);
  fifth_bits(block + 2, out.codes);
}

void unpack_q5_1(const std::byte* block, BlockCodes out) {
  out.scales[0] = half(block);
  out.biases[0] = half(block + 2);
  nibbles(block + 8, out.codes);
  fifth_bits(block + 4, out.codes);
}

void unpack_q8_0(const std::byte* block, BlockCodes out) {
  out.scales[0] = half(block);
  for (int i = 0; i < kColumns; ++i) out.codes[i] = static_cast<uint8_t>(block[2 + i]) ^ 0x80;  // int8 + 128
}

constexpr std::array kFormats = std::to_array<BlockFormat>({
    {"q4_0", "GGUF Q4_0: 4 bits in blocks of 32, one f16 scale", 32, 18, 4, 32, 8, unpack_q4_0, nullptr},
    {"q4_1", "GGUF Q4_1: 4 bits in blocks of 32, f16 scale and minimum", 32, 20, 4, 32, -1, unpack_q4_1,
     nullptr},
    {"q5_0", "GGUF Q5_0: 5 bits in blocks of 32, one f16 scale", 32, 22, 5, 32, 16, unpack_q5_0, nullptr},
    {"q5_1", "GGUF Q5_1: 5 bits in blocks of 32, f16 scale and minimum", 32, 24, 5, 32, -1, unpack_q5_1,
     nullptr},
    {"q8_0", "GGUF Q8_0: 8 bits in blocks of 32, one f16 scale", 32, 34, 8, 32, 128, unpack_q8_0, nullptr},
});

}  // namespace

std::span<const BlockFormat> simple_block_formats() {
  return kFormats;
}

}  // namespace penstock::quant
