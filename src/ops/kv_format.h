// How keys and values are kept between steps, and the scalar reference of it. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::ops {

/// kPlain: not quantised, in whatever floating-point type the executor keeps.
enum class KvFormat : uint8_t { kPlain, kQ8, kQ4, kK8V4 };

/// "auto", "q8", "q4", "k8v4", as in the settings.
const char* name(KvFormat format);

/// Throws Error(kInvalidRequest) for any other name.
KvFormat kv_format_named(std::string_view name);

/// Bits of a code; 0: not quantised.
int32_t key_bits(KvFormat format);
int32_t value_bits(KvFormat format);

/// Dimensions of one head of one position that share a scale; the last ones of a head may be fewer.
int32_t kv_group(int32_t bits);

/// Codes of one group of a head, and what they are multiplied by once it is rounded to half precision. Of
/// eight bits -127 to 127, symmetric; of four -8 to 7, where the number of largest magnitude becomes -8. Not
/// finite where x is not.
float quantize_kv(int32_t bits, std::span<const float> x, int8_t* codes);

/// x, one head of one position, becomes what the codes give back. 0 bits leave it alone.
void round_kv_reference(int32_t bits, std::span<float> x);

}  // namespace penstock::ops
