// The packing of MLX codes: one little-endian stream of bits per row, lowest bit first, whatever the width.
// Plain functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace penstock::quant {

/// Eight codes of kBits bits, the lowest first, to eight bytes: halves, quarters and eighths move apart.
template <int kBits>
uint64_t spread_codes(uint64_t eight) {
  constexpr uint64_t kFour = (uint64_t{1} << 4 * kBits) - 1;
  constexpr uint64_t kTwo = ((uint64_t{1} << 2 * kBits) - 1) * 0x0000000100000001;
  constexpr uint64_t kOne = ((uint64_t{1} << kBits) - 1) * 0x0001000100010001;
  eight = (eight & kFour) | (eight & kFour << 4 * kBits) << (32 - 4 * kBits);
  eight = (eight & kTwo) | (eight & kTwo << 2 * kBits) << (16 - 2 * kBits);
  return (eight & kOne) | (eight & kOne << kBits) << (8 - kBits);
}

template <int kBits>
void unpack_bits_of(const std::byte* packed, std::span<uint8_t> codes) {
  for (size_t i = 0; i < codes.size(); i += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, packed, kBits);
    packed += kBits;
    eight = spread_codes<kBits>(eight);
    std::memcpy(&codes[i], &eight, sizeof(eight));
  }
}

/// Codes of `bits` bits (2..8). packed holds codes.size() * bits / 8 bytes; codes.size() is a multiple of 8.
/// Loading a model is mostly this, so each width has its own loop.
inline void unpack_bits(const std::byte* packed, int bits, std::span<uint8_t> codes) {
  switch (bits) {
    case 2:
      return unpack_bits_of<2>(packed, codes);
    case 3:
      return unpack_bits_of<3>(packed, codes);
    case 4:
      return unpack_bits_of<4>(packed, codes);
    case 5:
      return unpack_bits_of<5>(packed, codes);
    case 6:
      return unpack_bits_of<6>(packed, codes);
    case 7:
      return unpack_bits_of<7>(packed, codes);
    default:
      if (!codes.empty()) std::memcpy(codes.data(), packed, codes.size());
  }
}

/// The reverse; every code is below 2^bits.
inline void pack_bits(std::span<const uint8_t> codes, int bits, std::byte* packed) {
  for (size_t i = 0; i < codes.size(); i += 8) {
    uint64_t eight = 0;
    for (size_t k = 0; k < 8; ++k)
      eight |= static_cast<uint64_t>(codes[i + k]) << (k * static_cast<size_t>(bits));
    std::memcpy(packed, &eight, static_cast<size_t>(bits));
    packed += bits;
  }
}

}  // namespace penstock::quant
