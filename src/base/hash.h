// Small non-cryptographic hashes: FNV-1a for names and logits, splitmix64 for counter-based random numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::base {

constexpr uint64_t kFnvOffset = 0xcbf29ce484222325ULL;

/// FNV-1a, 64 bit; `seed` chains several pieces.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t seed = kFnvOffset) {
  uint64_t hash = seed;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return hash;
}

template <class T>
uint64_t fnv1a(std::span<const T> values, uint64_t seed = kFnvOffset) {
  return fnv1a({reinterpret_cast<const char*>(values.data()), values.size_bytes()}, seed);
}

/// The splitmix64 finaliser (Steele, Lea and Flood 2014): a bijection that scrambles a counter.
constexpr uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace penstock::base
