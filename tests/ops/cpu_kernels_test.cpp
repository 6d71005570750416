// Every kernel of every table that this processor can run against its scalar twin, byte for byte, and the
// rule that a row's bits do not depend on how many rows, strips or queries are computed with it.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "exec/cpu/activations.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/kv_cache.h"
#include "exec/cpu/processor.h"
#include "ops/kv_format.h"
#include "tensor/dtype.h"

namespace penstock::exec::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> normal(size_t n, uint32_t seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = draw(random);
  return values;
}

template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

std::string table_name(const Kernels* table) {
  std::string name = table->name;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

std::string name_of_table(const testing::TestParamInfo<const Kernels*>& info) {
  return table_name(info.param);
}

/// The tables to test: all but the scalar one, which they are compared with; that one where there is no
/// other.
std::vector<const Kernels*> tables() {
  std::vector<const Kernels*> found = available_kernels();
  if (found.size() > 1) found.pop_back();
  return found;
}

/// A test that runs on each table.
class KernelTest : public testing::TestWithParam<const Kernels*> {
 protected:
  static const Kernels& table() { return *GetParam(); }

 private:
  DenormalScope denormals_{Denormals::kZero};  // as in a job
};

INSTANTIATE_TEST_SUITE_P(Tables, KernelTest, testing::ValuesIn(tables()), name_of_table);

struct Shape {
  int64_t rows, cols;
  int32_t group;
  CodeLayout layout;
  ScaleType type;
  int32_t zero = kStoredBias;
};

void put_scale(ScaleType type, float value, uint8_t* to) {
  const uint16_t half = type == ScaleType::kF16 ? tensor::f32_to_f16(value) : tensor::f32_to_bf16(value);
  if (type == ScaleType::kF32)
    std::memcpy(to, &value, sizeof(value));
  else
    std::memcpy(to, &half, sizeof(half));
}

/// Random codes of one shape with sane scales.
struct Codes {
  PackedCodes view;
  std::vector<uint8_t> bytes;

  explicit Codes(const Shape& shape) {
    view = {.rows = shape.rows,
            .cols = shape.cols,
            .group = shape.group,
            .layout = shape.layout,
            .scale_type = shape.type,
            .zero = shape.zero};
    if (shape.layout == CodeLayout::kFp4 && shape.type != ScaleType::kF32) view.scale_factor = 0.5f;
    std::mt19937 random(static_cast<uint32_t>(shape.rows * 31 + shape.cols * 7 + shape.group));
    bytes.resize(static_cast<size_t>(view.strips() * view.strip_bytes()));
    for (int64_t block = 0; block < view.strips() * view.blocks_of_strip(); ++block)
      fill(bytes.data() + block * view.block_bytes(), random);
    view.blocks = bytes.data();
  }

  void fill(uint8_t* block, std::mt19937& random) {
    for (int64_t i = 0; i < view.code_bytes(); ++i) block[i] = static_cast<uint8_t>(random());
    if (view.layout == CodeLayout::kFp8)  // no NaN, whose bits are the processor's own
      for (int64_t i = 0; i < view.code_bytes(); ++i)
        if ((block[i] & 0x7f) == 0x7f) block[i] ^= 1;
    if (view.nested())
      for (int i = 0; i < 2 * kStripRows; ++i)
        if (i < kStripRows || view.has_bias())
          put_scale(ScaleType::kF16, nested_half(i >= kStripRows) * static_cast<float>(1 + random() % 50),
                    block + view.code_bytes() + 2 * i);
    for (int64_t group = 0; group < view.block_groups(); ++group)
      for (int lane = 0; lane < kStripRows; ++lane) {
        const int64_t at = group * view.group_scale_bytes() + lane * view.scale_bytes();
        fill_scale(block + view.scales_at() + at, random, false);
        if (view.has_bias()) fill_scale(block + view.biases_at() + at, random, true);
      }
  }

  /// The biases that are paired with scales have the sign in their half.
  float nested_half(bool bias) const {
    return bias && view.scale_type == ScaleType::kPaired ? -0.0001f : 0.0001f;
  }

  void fill_scale(uint8_t* to, std::mt19937& random, bool bias) {
    std::uniform_real_distribution<float> scale(0.001f, 0.02f);
    if (view.scale_type == ScaleType::kE8M0)
      *to = static_cast<uint8_t>(117 + random() % 6);
    else if (view.scale_type == ScaleType::kE4M3)
      *to = static_cast<uint8_t>(random() % 2 == 0 ? random() % 0x30 : 0x80 + random() % 0x30);
    else if (view.scale_type == ScaleType::kPaired)
      *to = static_cast<uint8_t>(random());
    else if (view.scale_type == ScaleType::kNested)
      *to = static_cast<uint8_t>(bias ? -(static_cast<int>(random()) & 63) : static_cast<int>(random()));
    else
      put_scale(view.scale_type, bias ? -8 * scale(random) : scale(random), to);
  }
};

struct Rows {
  std::vector<float> x;
  ActivationRows rows;
  int64_t cols;

  Rows(int32_t m, int64_t columns, int32_t group, uint32_t seed)
      : x(normal(static_cast<size_t>(m * columns), seed)),
        rows(m, columns, 1u << group_index(group)),
        cols(columns) {
    for (int64_t r = 0; r < m; ++r)
      rows.quantize(scalar_kernels(), 1u << group_index(group), x.data() + r * cols, r, cols, {0, cols});
  }

  QuantRows quantized(int32_t group, int64_t first, int32_t m) const {
    QuantRows q = rows.quantized(group, m, cols);
    q.codes += first * cols;
    q.scales += first * (cols / group);
    q.sums += first * (cols / group);
    q.code_sums += first * (cols / group);
    return q;
  }
};

constexpr auto kTwo = CodeLayout::kTwo, kThree = CodeLayout::kThree, kFour = CodeLayout::kFour,
               kFive = CodeLayout::kFive, kSix = CodeLayout::kSix, kEight = CodeLayout::kEight,
               kFp4 = CodeLayout::kFp4, kFp8 = CodeLayout::kFp8;

const std::vector<Shape> kShapes = {
    {40, 96, 32, kFour, ScaleType::kF16},        {72, 576, 32, kFour, ScaleType::kF16},
    {19, 64, 16, kTwo, ScaleType::kF32},         {64, 256, 64, kFour, ScaleType::kBF16},
    {8, 128, 128, kFour, ScaleType::kF16},       {26, 96, 32, kFour, ScaleType::kF16, 8},
    {130, 1536, 64, kThree, ScaleType::kF32},    {24, 96, 32, kThree, ScaleType::kF16},
    {33, 128, 128, kTwo, ScaleType::kBF16},      {17, 128, 32, kTwo, ScaleType::kF16},
    {24, 96, 32, kFive, ScaleType::kF16},        {9, 128, 128, kFive, ScaleType::kF16, 16},
    {33, 128, 16, kSix, ScaleType::kF32},        {40, 192, 64, kSix, ScaleType::kBF16},
    {49, 256, 32, kEight, ScaleType::kF16},      {16, 256, 128, kEight, ScaleType::kBF16},
    {25, 64, 64, kEight, ScaleType::kF32},       {9, 64, 16, kThree, ScaleType::kF16},
    {31, 96, 32, kEight, ScaleType::kF16, 128},  {40, 96, 32, kFp4, ScaleType::kE8M0, 12},
    {27, 64, 16, kFp4, ScaleType::kE4M3, 12},    {16, 64, 32, kFp4, ScaleType::kF32},
    {24, 512, 16, kTwo, ScaleType::kNested},     {17, 256, 16, kThree, ScaleType::kNested, 4},
    {41, 768, 32, kFour, ScaleType::kNested},    {16, 256, 32, kFive, ScaleType::kNested},
    {23, 512, 16, kSix, ScaleType::kNested, 32}, {24, 512, 16, kTwo, ScaleType::kPaired},
};

/// Numbers have no integers: linear_exact takes them in both modes.
const std::vector<Shape> kNumberShapes = {
    {8, 32, 32, kFp8, ScaleType::kE8M0, 0},
    {43, 96, 32, kFp8, ScaleType::kE8M0, 0},
    {130, 576, 32, kFp8, ScaleType::kE8M0, 0},
};

std::string shape_name(const Shape& s) {
  static constexpr const char* kLayouts[] = {"two", "three", "four", "five", "six", "eight", "fp4", "fp8"};
  static constexpr const char* kTypes[] = {"f16", "bf16", "f32", "e8m0", "e4m3", "nested", "paired"};
  return std::to_string(s.rows) + "x" + std::to_string(s.cols) + "_g" + std::to_string(s.group) + "_" +
         kLayouts[static_cast<int>(s.layout)] + "_" + kTypes[static_cast<int>(s.type)] +
         (s.zero == kStoredBias ? "" : "_zero" + std::to_string(s.zero));
}

using LinearCase = std::tuple<Shape, const Kernels*>;

std::string name_of(const testing::TestParamInfo<LinearCase>& info) {
  const auto& [shape, table] = info.param;
  return shape_name(shape) + "_" + table_name(table);
}

class LinearTest : public testing::TestWithParam<LinearCase> {
 protected:
  LinearTest() : LinearTest(std::get<Shape>(GetParam())) {}

  explicit LinearTest(const Shape& shape)
      : codes_(shape), bias_(normal(static_cast<size_t>(shape.rows), 5)) {}

  static const Kernels& table() { return *std::get<const Kernels*>(GetParam()); }

  const PackedCodes& w() const { return codes_.view; }

  /// Logits [m, rows], computed by strips in two uneven shares.
  std::vector<float> codes(const Kernels& kernels, const QuantRows& x, bool add = false) const {
    std::vector<float> out(static_cast<size_t>(x.m * w().rows), add ? 0.25f : -77.0f);
    const LinearOut to = {out.data(), w().rows, bias_.data(), add};
    const int64_t cut = w().strips() / 3;
    std::vector<uint8_t> scratch(static_cast<size_t>(codes_scratch_bytes(w().cols)));
    kernels.linear_codes(w(), x, {0, cut}, to, scratch.data());
    kernels.linear_codes(w(), x, {cut, w().strips()}, to, scratch.data());
    return out;
  }

  std::vector<float> exact(const Kernels& kernels, const FloatRows& x) const {
    std::vector<float> out(static_cast<size_t>(x.m * w().rows), -77.0f);
    std::vector<float> scratch(static_cast<size_t>(exact_scratch_floats(x.m)));
    const LinearOut to = {out.data(), w().rows, nullptr, false};
    const int64_t cut = w().strips() / 3;
    kernels.linear_exact(w(), x, {0, cut}, to, scratch.data());
    kernels.linear_exact(w(), x, {cut, w().strips()}, to, scratch.data());
    return out;
  }

  Codes codes_;
  std::vector<float> bias_;

 private:
  DenormalScope denormals_{Denormals::kZero};  // as in a job
};

TEST_P(LinearTest, CodesEqualTheScalarTwin) {
  const Rows x(13, w().cols, w().group, 1);
  for (const int32_t m : {1, 2, 3, 4, 7, 13}) {
    const QuantRows q = x.quantized(w().group, 0, m);
    EXPECT_TRUE(same_bytes(codes(scalar_kernels(), q), codes(table(), q))) << m << " rows";
    EXPECT_TRUE(same_bytes(codes(scalar_kernels(), q, true), codes(table(), q, true))) << m << " rows added";
  }
}

TEST_P(LinearTest, CodesAreCloseToFloat) {
  const Rows x(2, w().cols, w().group, 2);
  const std::vector<float> fast = codes(table(), x.quantized(w().group, 0, 2));
  std::vector<float> slow = exact(table(), {x.x.data(), w().cols, 2});
  double error = 0, size = 0;
  for (size_t i = 0; i < slow.size(); ++i) {
    slow[i] += bias_[i % static_cast<size_t>(w().rows)];
    error += std::pow(double{fast[i]} - slow[i], 2);
    size += std::pow(double{slow[i]}, 2);
  }
  EXPECT_LT(std::sqrt(error / size), 0.02);
}

TEST_P(LinearTest, ExactEqualsTheScalarTwin) {
  const Rows x(13, w().cols, w().group, 3);
  for (const int32_t m : {1, 2, 3, 5, 13}) {
    const FloatRows rows = {x.x.data(), w().cols, m};
    EXPECT_TRUE(same_bytes(exact(scalar_kernels(), rows), exact(table(), rows))) << m << " rows";
  }
}

TEST_P(LinearTest, ARowAloneEqualsARowAmongOthers) {
  constexpr int32_t kRows = 64;
  const Rows x(kRows, w().cols, w().group, 4);
  std::vector<std::vector<float>> fast_alone, slow_alone;
  for (int32_t r = 0; r < kRows; ++r) {
    fast_alone.push_back(codes(table(), x.quantized(w().group, r, 1)));
    slow_alone.push_back(exact(table(), {x.x.data() + r * w().cols, w().cols, 1}));
  }
  const auto bytes = static_cast<size_t>(w().rows) * sizeof(float);
  for (const int32_t m : {2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 32, 33, kRows}) {
    const std::vector<float> fast = codes(table(), x.quantized(w().group, 0, m));
    const std::vector<float> slow = exact(table(), {x.x.data(), w().cols, m});
    for (int32_t r = 0; r < m; ++r) {
      const auto row = static_cast<size_t>(r);
      ASSERT_EQ(std::memcmp(fast.data() + r * w().rows, fast_alone[row].data(), bytes), 0)
          << r << " of " << m;
      ASSERT_EQ(std::memcmp(slow.data() + r * w().rows, slow_alone[row].data(), bytes), 0)
          << r << " of " << m;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearTest,
                         testing::Combine(testing::ValuesIn(kShapes), testing::ValuesIn(tables())), name_of);

class NumbersTest : public LinearTest {};

TEST_P(NumbersTest, ExactEqualsTheScalarTwinInAnyBatch) {
  constexpr int32_t kRows = 13;
  const std::vector<float> x = normal(static_cast<size_t>(kRows * w().cols), 3);
  const FloatRows all = {x.data(), w().cols, kRows};
  const std::vector<float> together = exact(table(), all);
  EXPECT_TRUE(same_bytes(exact(scalar_kernels(), all), together));
  for (int64_t r = 0; r < kRows; ++r) {
    const std::vector<float> alone = exact(table(), {x.data() + r * w().cols, w().cols, 1});
    EXPECT_EQ(std::memcmp(alone.data(), together.data() + r * w().rows, alone.size() * sizeof(float)), 0)
        << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, NumbersTest,
                         testing::Combine(testing::ValuesIn(kNumberShapes), testing::ValuesIn(tables())),
                         name_of);

/// The largest codes and activations: no 16-bit sum may saturate.
TEST_P(KernelTest, LinearExtremesDoNotSaturate) {
  for (const Shape& shape : kShapes) {
    Codes codes(shape);
    for (const float sign : {1.0f, -1.0f}) {
      for (const uint8_t byte : {0x00, 0xff, 0x80, 0x7f, 0x77}) {
        for (int64_t b = 0; b < codes.view.strips() * codes.view.blocks_of_strip(); ++b)
          std::memset(codes.bytes.data() + b * codes.view.block_bytes(), byte,
                      static_cast<size_t>(codes.view.code_bytes()));
        ActivationRows rows(1, shape.cols, 1u << group_index(shape.group));
        const std::vector<float> x(static_cast<size_t>(shape.cols), sign);
        rows.quantize(scalar_kernels(), 1u << group_index(shape.group), x.data(), 0, shape.cols,
                      {0, shape.cols});
        std::vector<float> a(static_cast<size_t>(shape.rows)), b(a);
        const QuantRows q = rows.quantized(shape.group, 1, shape.cols);
        scalar_kernels().linear_codes(codes.view, q, {0, codes.view.strips()}, {a.data(), shape.rows},
                                      nullptr);
        table().linear_codes(codes.view, q, {0, codes.view.strips()}, {b.data(), shape.rows}, nullptr);
        EXPECT_TRUE(same_bytes(a, b)) << shape_name(shape) << ", code " << int{byte};
      }
    }
  }
}

TEST_P(KernelTest, DenseEqualsTheScalarTwinInAnyBatch) {
  for (const DenseType type : {DenseType::kF32, DenseType::kF16, DenseType::kBF16})
    for (const int64_t cols : {1, 7, 8, 16, 20, 31, 100, 576}) {
      constexpr int64_t kRows = 23;
      const std::vector<float> values = normal(static_cast<size_t>(kRows * cols), 8, 0.1f);
      std::vector<uint16_t> half(values.size());
      for (size_t i = 0; i < half.size(); ++i)
        half[i] = type == DenseType::kF16 ? tensor::f32_to_f16(values[i]) : tensor::f32_to_bf16(values[i]);
      std::vector<int32_t> order(kRows);
      for (int32_t r = 0; r < kRows; ++r)
        order[static_cast<size_t>(r)] = (r * 5) % static_cast<int32_t>(kRows);
      const DenseMatrix w = {type == DenseType::kF32 ? reinterpret_cast<const uint8_t*>(values.data())
                                                     : reinterpret_cast<const uint8_t*>(half.data()),
                             order.data(), kRows, cols, type};
      const std::vector<float> x = normal(static_cast<size_t>(9 * cols), 9);
      const auto run = [&](const Kernels& kernels, int64_t first, int32_t m) {
        std::vector<float> out(static_cast<size_t>(m * kRows), -1.0f);
        const FloatRows rows = {x.data() + first * cols, cols, m};
        kernels.linear_dense(w, rows, {0, 11}, {out.data(), kRows});
        kernels.linear_dense(w, rows, {11, kRows}, {out.data(), kRows});
        return out;
      };
      for (const int32_t m : {1, 2, 3, 9})
        EXPECT_TRUE(same_bytes(run(scalar_kernels(), 0, m), run(table(), 0, m)));
      const std::vector<float> all = run(table(), 0, 9);
      for (int64_t r = 0; r < 9; ++r) {
        const std::vector<float> alone = run(table(), r, 1);
        EXPECT_EQ(std::memcmp(alone.data(), all.data() + r * kRows, alone.size() * sizeof(float)), 0);
      }
    }
}

TEST_P(KernelTest, RowKernelsEqualTheScalarTwins) {
  const Kernels &a = scalar_kernels(), &b = table();
  for (const int64_t n : {1, 7, 8, 31, 32, 33, 40, 64, 100, 576, 1536}) {
    const auto size = static_cast<size_t>(n);
    const std::vector<float> x = normal(size, 1, 3), y = normal(size, 2), z = normal(size, 3);
    std::vector<float> p(size), q(size);
    a.rms_norm(x.data(), y.data(), n, 1e-5f, p.data());
    b.rms_norm(x.data(), y.data(), n, 1e-5f, q.data());
    EXPECT_TRUE(same_bytes(p, q)) << "rms_norm " << n;
    a.layer_norm(x.data(), y.data(), z.data(), n, 1e-12f, p.data());
    b.layer_norm(x.data(), y.data(), z.data(), n, 1e-12f, q.data());
    EXPECT_TRUE(same_bytes(p, q)) << "layer_norm " << n;
    for (const Gate gate : {Gate::kSilu, Gate::kGeluTanh, Gate::kGelu}) {
      a.activate(gate, x.data(), y.data(), n, p.data());
      b.activate(gate, x.data(), y.data(), n, q.data());
      EXPECT_TRUE(same_bytes(p, q)) << "activate " << n;
    }
    p = q = z;
    a.add(x.data(), n, p.data());
    b.add(x.data(), n, q.data());
    EXPECT_TRUE(same_bytes(p, q)) << "add " << n;
    p = q = z;
    a.rotate(p.data(), x.data(), y.data(), n / 2);
    b.rotate(q.data(), x.data(), y.data(), n / 2);
    EXPECT_TRUE(same_bytes(p, q)) << "rotate " << n;
    p = q = x;
    a.softcap(p.data(), n, 5);
    b.softcap(q.data(), n, 5);
    EXPECT_TRUE(same_bytes(p, q)) << "softcap " << n;
    std::vector<uint16_t> h(size), k(size);
    std::vector<float> wide = normal(size, 4, 1e5f);
    wide[0] = 1e-7f;
    a.to_f16(wide.data(), n, h.data());
    b.to_f16(wide.data(), n, k.data());
    EXPECT_TRUE(same_bytes(h, k)) << "to_f16 " << n;
    a.from_f16(h.data(), n, p.data());
    b.from_f16(h.data(), n, q.data());
    EXPECT_TRUE(same_bytes(p, q)) << "from_f16 " << n;
  }
}

TEST_P(KernelTest, RowKernelsActivationsAreRight) {
  const std::vector<float> x = {-100, -20, -3, -0.5f, 0, 0.5f, 3, 20, 100}, one(x.size(), 1.0f);
  std::vector<float> y(x.size());
  table().activate(Gate::kSilu, x.data(), one.data(), 9, y.data());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i] / (1 + std::exp(-double{x[i]})), 2e-6);
  table().activate(Gate::kGeluTanh, x.data(), one.data(), 9, y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], inner = 0.7978845608028654 * (v + 0.044715 * v * v * v);
    EXPECT_NEAR(y[i], 0.5 * v * (1 + std::tanh(inner)), 2e-6);
  }
  table().activate(Gate::kGelu, x.data(), one.data(), 9, y.data());
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(y[i], 0.5 * x[i] * (1 + std::erf(x[i] / std::sqrt(2.0))), 1e-6);
}

TEST_P(KernelTest, LayerNormIsRight) {
  const std::vector<float> x = {4, 1, 7, 4}, weight = {1, 2, 3, 4}, bias = {0, 10, 20, 30};
  std::vector<float> y(4);
  table().layer_norm(x.data(), weight.data(), bias.data(), 4, 0.5f, y.data());
  const double scale = 1 / std::sqrt(4.5 + 0.5);
  const double expected[] = {0, 10 - 2 * 3 * scale, 20 + 3 * 3 * scale, 30};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], expected[i], 1e-5);
}

TEST_P(KernelTest, QuantizeEqualsTheScalarTwinAndKeepsNan) {
  for (const int32_t group : {16, 32, 64, 128}) {
    std::vector<float> x = normal(256, 7, 4);
    for (int i = 0; i < 16; ++i) x[static_cast<size_t>(i)] = 0;
    for (const float special : {0.0f, 1e30f, -kInfinity, std::nanf("")}) {
      x[200] = special;
      const GroupSet set = 1u << group_index(group);
      ActivationRows a(1, 256, set), b(1, 256, set);
      a.quantize(scalar_kernels(), set, x.data(), 0, 256, {0, 256});
      b.quantize(table(), set, x.data(), 0, 256, {0, 256});
      const QuantRows p = a.quantized(group, 1, 256), q = b.quantized(group, 1, 256);
      const auto n = static_cast<size_t>(256 / group);
      EXPECT_EQ(std::memcmp(p.codes, q.codes, 256), 0);
      EXPECT_EQ(std::memcmp(p.scales, q.scales, n * 4), 0);
      EXPECT_EQ(std::memcmp(p.code_sums, q.code_sums, n * 4), 0);
      for (size_t g = 0; g < n; ++g)
        EXPECT_TRUE(p.sums[g] == q.sums[g] || (std::isnan(p.sums[g]) && std::isnan(q.sums[g])));
      EXPECT_EQ(std::isfinite(q.scales[200 / static_cast<size_t>(group)]), std::isfinite(special));
    }
  }
}

/// One tile and some queries over it.
struct TileCase {
  int32_t dim, padded, n;
  std::vector<float> keys, values, q, max, sum, acc, scores;
  std::vector<int32_t> first, last;
  std::vector<uint16_t> half_keys, half_values;
  std::vector<uint8_t> key_codes, value_codes;
  std::vector<float> scales;  // of keys and of values, [groups][64] each
  KvType key_type = KvType::kF32, value_type = KvType::kF32;

  TileCase(int32_t head_dim, int32_t queries, uint32_t seed)
      : dim(head_dim), padded(padded_dim(head_dim)), n(queries) {
    const auto rows = static_cast<size_t>(n) * static_cast<size_t>(padded);
    keys = normal(static_cast<size_t>(kTileKeys * dim), seed);
    values = normal(static_cast<size_t>(kTileKeys * padded), seed + 1);
    q = normal(rows, seed + 2);
    std::mt19937 random(seed);
    for (int32_t i = 0; i < n; ++i) {
      first.push_back(static_cast<int32_t>(random() % 20));
      last.push_back(static_cast<int32_t>(i % 5 == 4 ? 0 : 21 + random() % 44));
    }
    reset();
    scores.resize(static_cast<size_t>(n * kTileKeys));
  }

  void reset() {
    max.assign(static_cast<size_t>(n), -kInfinity);
    sum.assign(static_cast<size_t>(n), 0.0f);
    acc.assign(static_cast<size_t>(n) * static_cast<size_t>(padded), 0.0f);
  }

  /// The same tile in half precision.
  void halve() {
    half_keys.resize(keys.size());
    half_values.resize(values.size());
    scalar_kernels().to_f16(keys.data(), static_cast<int64_t>(keys.size()), half_keys.data());
    scalar_kernels().to_f16(values.data(), static_cast<int64_t>(values.size()), half_values.data());
    key_type = value_type = KvType::kF16;
  }

  /// Another tile, of random codes.
  void encode(int32_t key_bits, int32_t value_bits) {
    const auto tile = static_cast<size_t>(kTileKeys);
    key_type = key_bits == 8 ? KvType::kCodes8 : KvType::kCodes4;
    value_type = value_bits == 8 ? KvType::kCodes8 : KvType::kCodes4;
    std::mt19937 random(static_cast<uint32_t>(dim + key_bits));
    key_codes.resize(tile * static_cast<size_t>(dim * key_bits / 8));
    value_codes.resize(tile * static_cast<size_t>(value_bits == 8 ? padded : (padded + 31) / 32 * 16));
    for (auto* codes : {&key_codes, &value_codes})
      for (uint8_t& code : *codes) code = static_cast<uint8_t>(random());
    scales = normal(2 * tile * static_cast<size_t>(padded / 32 + 1), 5, 0.01f);
  }

  const float* value_scales() const { return scales.data() + kTileKeys * (padded / 32 + 1); }

  /// Codes as floats beside the same scales.
  void widen() {
    const Kernels& kernels = scalar_kernels();
    if (key_type == KvType::kCodes8)
      kernels.from_codes8(reinterpret_cast<const int8_t*>(key_codes.data()), kTileKeys * dim, keys.data());
    else
      kernels.from_codes4(key_codes.data(), kTileKeys * dim, keys.data());
    std::vector<float> row(static_cast<size_t>((padded + 31) / 32 * 32));
    for (int32_t key = 0; key < kTileKeys; ++key) {
      if (value_type == KvType::kCodes8)
        kernels.from_codes8(reinterpret_cast<const int8_t*>(value_codes.data()) + key * padded, padded,
                            row.data());
      else
        kernels.from_codes4(value_codes.data() + static_cast<size_t>(key) * row.size() / 2,
                            static_cast<int64_t>(row.size()), row.data());
      std::copy_n(row.data(), padded, values.data() + key * padded);
    }
    key_type = value_type = KvType::kF32;
  }

  AttendTile tile() const {
    AttendTile tile = {.keys = keys.data(),
                       .values = values.data(),
                       .dim = dim,
                       .value_stride = padded,
                       .key_type = key_type,
                       .value_type = value_type};
    if (key_type == KvType::kF16) tile.keys = half_keys.data(), tile.values = half_values.data();
    if (key_type == KvType::kCodes8 || key_type == KvType::kCodes4) tile.keys = key_codes.data();
    if (value_type == KvType::kCodes8 || value_type == KvType::kCodes4) tile.values = value_codes.data();
    if (key_type != KvType::kF32) tile.next = tile.keys;
    if (!scales.empty()) {
      tile.key_scales = scales.data();
      tile.value_scales = value_scales();
      tile.key_group = dim > 64 ? 64 : 32;
      tile.value_group = 32;
    }
    return tile;
  }

  /// Queries [from, from + m) twice over the tile, as if it were two tiles.
  void run(const Kernels& kernels, int32_t from, int32_t m, float softcap) {
    const AttendQueries queries = {q.data() + from * padded,
                                   first.data() + from,
                                   last.data() + from,
                                   max.data() + from,
                                   sum.data() + from,
                                   acc.data() + from * padded,
                                   scores.data(),
                                   m,
                                   0.3f,
                                   softcap};
    kernels.attend_tile(tile(), queries);
    kernels.attend_tile(tile(), queries);
  }
};

/// Bits of the codes of keys and values.
constexpr std::pair<int32_t, int32_t> kCodeBits[] = {{8, 8}, {4, 4}, {8, 4}, {4, 8}};

TEST_P(KernelTest, AttentionOverCodesEqualsTheScalarTwinInAnyCompany) {
  for (const int32_t dim : {4, 8, 20, 64, 80, 128, 256})
    for (const int32_t n : {1, 2, 3, 4, 6, 7, 13})
      for (const auto& [key_bits, value_bits] : kCodeBits) {
        TileCase a(dim, n, static_cast<uint32_t>(dim + n));
        a.encode(key_bits, value_bits);
        TileCase b = a, c = a;
        const float softcap = dim == 8 ? 3.0f : 0.0f;
        a.run(scalar_kernels(), 0, n, softcap);
        b.run(table(), 0, n, softcap);
        for (int32_t i = 0; i < n; ++i) c.run(table(), i, 1, softcap);
        EXPECT_TRUE(same_bytes(a.acc, b.acc) && same_bytes(a.sum, b.sum) && same_bytes(a.max, b.max))
            << dim << " " << n << " " << key_bits << " " << value_bits;
        EXPECT_TRUE(same_bytes(b.acc, c.acc) && same_bytes(b.sum, c.sum)) << dim << " " << n;
      }
}

/// A prompt converts the codes once: the same bytes.
TEST_P(KernelTest, AttentionReadsCodesLikeTheirFloats) {
  for (const int32_t dim : {20, 64, 128})
    for (const auto& [key_bits, value_bits] : kCodeBits) {
      TileCase codes(dim, 7, 5);
      codes.encode(key_bits, value_bits);
      TileCase floats = codes;
      floats.widen();
      codes.run(table(), 0, 7, 0);
      floats.run(table(), 0, 7, 0);
      EXPECT_TRUE(same_bytes(codes.acc, floats.acc) && same_bytes(codes.sum, floats.sum)) << dim;
    }
}

TEST_P(KernelTest, CodesToFloatsEqualTheScalarTwins) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  std::vector<float> p(512), q(512);
  for (const int64_t n : {1, 7, 8, 100, 256}) {
    scalar_kernels().from_codes8(reinterpret_cast<const int8_t*>(codes.data()), n, p.data());
    table().from_codes8(reinterpret_cast<const int8_t*>(codes.data()), n, q.data());
    EXPECT_TRUE(same_bytes(p, q));
  }
  scalar_kernels().from_codes4(codes.data(), 512, p.data());
  table().from_codes4(codes.data(), 512, q.data());
  EXPECT_TRUE(same_bytes(p, q));
  EXPECT_EQ(p[0], 0.0f);     // the low half of the first byte
  EXPECT_EQ(p[9], -7.0f);    // of byte 9
  EXPECT_EQ(p[16], 0.0f);    // the high half of the first byte
  EXPECT_EQ(p[271], -1.0f);  // the low half of byte 143, 0x8f
  EXPECT_EQ(p[287], -8.0f);  // its high half
}

/// The cache holds what the scalar reference of its format says, wherever a position lies.
TEST_P(KernelTest, TheCacheRoundsAsTheReferenceDoes) {
  for (const int32_t dim : {4, 20, 64, 80, 128})
    for (const auto format : {ops::KvFormat::kQ8, ops::KvFormat::kQ4, ops::KvFormat::kK8V4}) {
      models::Plan plan;
      plan.kv_groups = {{.n_layers = 2, .kv_heads = 3, .head_dim = dim}};
      plan.kv_layers = {{0, 0}, {0, 1}};
      const int32_t n_blocks[] = {3};
      const KvCache cache(plan, n_blocks, {.exact = false, .format = format});
      std::vector<float> scratch(KvCache::tile_floats(dim));
      const auto size = static_cast<size_t>(dim);
      for (int32_t offset = 0; offset < kTileKeys; ++offset) {
        const auto seed = static_cast<uint32_t>(offset);
        cache.store(table(), {1, 2, 1, offset}, normal(size, seed).data(), normal(size, seed + 1000).data());
      }
      cache.copy(0, 2, 0);
      const AttendTile tile = cache.tile(table(), {1, 0, 1, 0}, {0, kTileKeys}, 100, scratch.data(), nullptr);
      const auto* keys = static_cast<const float*>(tile.keys);
      const auto* values = static_cast<const float*>(tile.values);
      for (int32_t key = 0; key < kTileKeys; ++key) {
        std::vector<float> k = normal(size, static_cast<uint32_t>(key)),
                           v = normal(size, static_cast<uint32_t>(key) + 1000);
        ops::round_kv_reference(ops::key_bits(format), k);
        ops::round_kv_reference(ops::value_bits(format), v);
        for (int32_t d = 0; d < dim; ++d) {
          const float code = keys[(key / kPanelKeys * dim + d) * kPanelKeys + key % kPanelKeys];
          EXPECT_EQ(code * tile.key_scales[d / tile.key_group * kTileKeys + key], k[static_cast<size_t>(d)]);
          const float value = values[key * tile.value_stride + d];
          EXPECT_EQ(value * tile.value_scales[d / tile.value_group * kTileKeys + key],
                    v[static_cast<size_t>(d)])
              << dim << " " << key << " " << d;
        }
      }
    }
}

TEST_P(KernelTest, AttentionEqualsTheScalarTwinInAnyCompany) {
  for (const int32_t dim : {4, 8, 20, 64, 80, 128, 256})
    for (const int32_t n : {1, 2, 3, 4, 5, 6, 7, 9, 12, 24})
      for (const auto& [softcap, half] : {std::pair{0.0f, false}, {3.0f, false}, {0.0f, true}}) {
        TileCase a(dim, n, static_cast<uint32_t>(dim + n));
        if (half) a.halve();
        TileCase b = a, c = a;
        a.run(scalar_kernels(), 0, n, softcap);
        b.run(table(), 0, n, softcap);
        for (int32_t i = 0; i < n; ++i) c.run(table(), i, 1, softcap);
        EXPECT_TRUE(same_bytes(a.acc, b.acc) && same_bytes(a.sum, b.sum) && same_bytes(a.max, b.max))
            << dim << " " << n;
        EXPECT_TRUE(same_bytes(b.acc, c.acc) && same_bytes(b.sum, c.sum)) << dim << " " << n;
      }
}

TEST_P(KernelTest, AttentionReadsHalfPrecisionLikeItsFloats) {
  TileCase half(64, 7, 5);
  half.halve();
  TileCase floats = half;
  floats.key_type = floats.value_type = KvType::kF32;
  scalar_kernels().from_f16(half.half_keys.data(), static_cast<int64_t>(half.half_keys.size()),
                            floats.keys.data());
  scalar_kernels().from_f16(half.half_values.data(), static_cast<int64_t>(half.half_values.size()),
                            floats.values.data());
  half.run(table(), 0, 7, 0);
  floats.run(table(), 0, 7, 0);
  EXPECT_TRUE(same_bytes(half.acc, floats.acc) && same_bytes(half.sum, floats.sum));
}

TEST_P(KernelTest, AttentionWeighsAsTheExponentialDoes) {
  TileCase tile(64, 12, 8);
  tile.run(table(), 0, 12, 0);
  for (int32_t i = 0; i < tile.n; ++i) {
    const auto query = static_cast<size_t>(i);
    if (tile.first[query] >= tile.last[query]) continue;
    double top = -kInfinity, sum = 0;
    std::vector<double> score;
    for (int32_t key = tile.first[query]; key < tile.last[query]; ++key) {
      const size_t panel = static_cast<size_t>(key / kPanelKeys * 64 * kPanelKeys + key % kPanelKeys);
      double dot = 0;
      for (size_t d = 0; d < 64; ++d)
        dot += double{tile.q[query * 64 + d]} * tile.keys[panel + d * kPanelKeys];
      score.push_back(dot * 0.3);
      top = std::max(top, score.back());
    }
    for (double& s : score) sum += s = std::exp(s - top);
    for (size_t d = 0; d < 64; ++d) {
      double expected = 0;
      for (size_t k = 0; k < score.size(); ++k)
        expected += score[k] / sum * tile.values[(static_cast<size_t>(tile.first[query]) + k) * 64 + d];
      EXPECT_NEAR(tile.acc[query * 64 + d] / tile.sum[query], expected, 3e-6) << i << " " << d;
    }
  }
}

TEST_P(KernelTest, AttentionHiddenKeysMayHoldAnything) {
  TileCase clean(64, 7, 3), dirty = clean;
  for (int32_t i = 0; i < 7; ++i)
    clean.first[static_cast<size_t>(i)] = dirty.first[static_cast<size_t>(i)] = 10;
  for (int32_t i = 0; i < 7; ++i)
    clean.last[static_cast<size_t>(i)] = dirty.last[static_cast<size_t>(i)] = 40;
  for (int32_t key = 0; key < kTileKeys; ++key) {
    if (key >= 10 && key < 40) continue;
    for (int32_t d = 0; d < 64; ++d) {
      dirty
          .keys[static_cast<size_t>(key / kPanelKeys * 64 * kPanelKeys + d * kPanelKeys + key % kPanelKeys)] =
          std::nanf("");
      dirty.values[static_cast<size_t>(key * 64 + d)] = key % 2 == 0 ? std::nanf("") : kInfinity;
    }
  }
  clean.run(table(), 0, 7, 0);
  dirty.run(table(), 0, 7, 0);
  EXPECT_TRUE(same_bytes(clean.acc, dirty.acc) && same_bytes(clean.sum, dirty.sum));
}

TEST_P(KernelTest, AttentionMergeAndFinishEqualTheScalarTwins) {
  for (const int64_t n : {8, 64, 128}) {
    const auto size = static_cast<size_t>(n);
    std::vector<float> next = normal(size, 1), p = normal(size, 2), q = p, out_p(size), out_q(size);
    float max_next = 1.5f, sum_next = 7, max_p = 0.25f, max_q = max_p, sum_p = 3, sum_q = sum_p;
    scalar_kernels().merge_partial({&max_next, &sum_next, next.data()}, {&max_p, &sum_p, p.data()}, n);
    table().merge_partial({&max_next, &sum_next, next.data()}, {&max_q, &sum_q, q.data()}, n);
    EXPECT_EQ(max_p, max_q);
    EXPECT_EQ(sum_p, sum_q);
    EXPECT_TRUE(same_bytes(p, q));
    scalar_kernels().finish_partial({&max_p, &sum_p, p.data()}, n - 3, out_p.data());
    table().finish_partial({&max_q, &sum_q, q.data()}, n - 3, out_q.data());
    EXPECT_TRUE(same_bytes(out_p, out_q));
  }
}

}  // namespace
}  // namespace penstock::exec::cpu
