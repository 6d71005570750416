// The packing of MLX codes: one little-endian stream of bits per row, lowest bit first, whatever the width.
// Plain functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace penstock::quant {

/// Codes of `bits` bits (2..8). packed holds codes.size() * bits / 8 bytes; codes.size() is a multiple of 8.
inline void unpack_bits(const std::byte* packed, int bits, std::span<uint8_t> codes) {
  const auto mask = static_cast<uint8_t>((1u << bits) - 1);
  for (size_t i = 0; i < codes.size(); i += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, packed, static_cast<size_t>(bits));
    packed += bits;
    for (size_t k = 0; k < 8; ++k)
      codes[i + k] = static_cast<uint8_t>(eight >> (k * static_cast<size_t>(bits))) & mask;
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
