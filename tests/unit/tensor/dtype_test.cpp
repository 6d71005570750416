#include "tensor/dtype.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tensor/view.h"

namespace penstock::tensor {
namespace {

TEST(DType, NamesGoBothWays) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI8, DType::kI16, DType::kI32,
        DType::kI64, DType::kU8, DType::kU16, DType::kU32, DType::kU64, DType::kBool}) {
    EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("F8_E8M0"), DType::kU8);
  EXPECT_EQ(dtype_from_name("F8_E5M2"), std::nullopt);
  EXPECT_EQ(size_bytes(DType::kF64), 8u);
  EXPECT_EQ(size_bytes(DType::kBool), 1u);
}

TEST(Half, EveryF16SurvivesTheRoundTrip) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = f16_to_f32(bits);
    const int exponent = (bits >> 10) & 31;
    const int mantissa = bits & 1023;
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
      continue;
    }
    const float expected = exponent == 31  ? std::numeric_limits<float>::infinity()
                           : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                           : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    ASSERT_EQ(std::abs(value), expected) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0);
    ASSERT_EQ(f32_to_f16(value), bits);
  }
}

TEST(Half, F16RoundsToNearestEven) {
  for (uint32_t i = 0; i < 0x7bff; ++i) {
    const float low = f16_to_f32(static_cast<uint16_t>(i));
    const float high = f16_to_f32(static_cast<uint16_t>(i + 1));
    const float middle = (low + high) / 2;  // exact in float32
    const auto even = static_cast<uint16_t>(i + (i & 1));
    ASSERT_EQ(f32_to_f16(middle), even);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, high)), i + 1);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, low)), i);
  }
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
}

TEST(Half, BF16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7f7fffffu)), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  for (uint32_t i = 0; i < 0x7f80; ++i) ASSERT_EQ(f32_to_bf16(bf16_to_f32(static_cast<uint16_t>(i))), i);
}

TEST(View, ReadsUnalignedBytes) {
  const std::byte bytes[] = {std::byte{9}, std::byte{0}, std::byte{0x3c}, std::byte{0}, std::byte{0xc0}};
  const View view = {DType::kF16, {2}, std::span(bytes).subspan(1)};
  EXPECT_EQ(to_f32(view), (std::vector<float>{1, -2}));
  std::vector<float> one(1);
  read_f32(view, 1, one);
  EXPECT_EQ(one[0], -2);
  EXPECT_ANY_THROW(read_f32(view, 2, one));
  EXPECT_ANY_THROW(read_f32({DType::kI16, {2}, view.bytes}, 0, one));
}

}  // namespace
}  // namespace penstock::tensor
