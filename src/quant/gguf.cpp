// GGUF block formats. dequantize() multiplies and adds in the order of the gguf Python package and equals it
// bit for bit. In codes() every product is exact in float32, so fused or not makes no difference; -0 becomes
// +0 in the symmetric formats.
#include <array>
#include <deque>
#include <vector>

#include "quant/format.h"
#include "quant/format_list.h"
#include "quant/gguf_block.h"

namespace penstock::quant {
namespace {

class GgufFormat final : public Format {
 public:
  explicit GgufFormat(const BlockFormat& block) : block_(block) {}

  std::string_view name() const override { return block_.name; }
  bool integer_codes(const Matrix&) const override { return true; }
  int code_bits(const Matrix&) const override { return block_.bits; }
  int zero_code(const Matrix&) const override { return block_.zero; }
  int code_group(const Matrix&) const override { return block_.group; }

  void codes(const Matrix& matrix, int64_t row, RowCodes out) const override {
    const std::byte* at = row_start(matrix, row);
    size_t group = 0;
    for (int64_t c = 0; c < matrix.cols; c += block_.columns, at += block_.bytes) {
      const size_t groups = static_cast<size_t>(block_.columns / block_.group);
      unpack(at, {&out.codes[static_cast<size_t>(c)], &out.scales[group], &out.biases[group]});
      for (size_t g = group; block_.zero >= 0 && g < group + groups; ++g) {
        out.biases[g] = static_cast<float>(-block_.zero) * out.scales[g];
      }
      group += groups;
    }
  }

  bool nested_scales(const Matrix&) const override { return block_.unpack_nested != nullptr; }

  void nested_codes(const Matrix& matrix, int64_t row, NestedRow out) const override {
    if (block_.unpack_nested == nullptr) no_codes();
    const std::byte* at = row_start(matrix, row);
    const auto groups = static_cast<size_t>(block_.columns / block_.group);
    for (size_t b = 0; b < out.d.size(); ++b, at += block_.bytes) {
      NestedBlock block{&out.codes[b * static_cast<size_t>(block_.columns)], &out.scales[b * groups],
                        &out.minimums[b * groups]};
      block_.unpack_nested(at, block);
      out.d[b] = block.d;
      out.dmin[b] = block.dmin;
    }
  }

  void dequantize(const Matrix& matrix, int64_t row, std::span<float> out) const override {
    const std::byte* at = row_start(matrix, row);
    for (int64_t c = 0; c < matrix.cols; c += block_.columns, at += block_.bytes) {
      dequantize_block(at, out.subspan(static_cast<size_t>(c), static_cast<size_t>(block_.columns)));
    }
  }

  size_t row_bytes(const Matrix& matrix) const override {
    return static_cast<size_t>(matrix.cols / block_.columns * block_.bytes);
  }

  std::string_view describe() const override { return block_.text; }

 private:
  const std::byte* row_start(const Matrix& matrix, int64_t row) const {
    return matrix.codes.bytes.data() + static_cast<size_t>(matrix.stored_row(row)) * row_bytes(matrix);
  }

  void unpack(const std::byte* at, BlockCodes out) const {
    if (block_.unpack_nested == nullptr) return block_.unpack(at, out);
    std::array<int8_t, kMaxBlockGroups> scales;
    std::array<uint8_t, kMaxBlockGroups> minimums{};
    NestedBlock block{out.codes, scales.data(), minimums.data()};
    block_.unpack_nested(at, block);
    const float d = tensor::f16_to_f32(block.d), dmin = tensor::f16_to_f32(block.dmin);
    for (size_t g = 0; g < static_cast<size_t>(block_.columns / block_.group); ++g) {
      out.scales[g] = d * static_cast<float>(scales[g]);
      if (block_.zero < 0) out.biases[g] = -(dmin * static_cast<float>(minimums[g]));
    }
  }

  void dequantize_block(const std::byte* at, std::span<float> out) const {
    std::array<uint8_t, kMaxBlockColumns> codes;
    std::array<float, kMaxBlockGroups> scales;
    std::array<float, kMaxBlockGroups> biases;
    unpack(at, {codes.data(), scales.data(), biases.data()});
    for (size_t c = 0; c < out.size(); ++c) {
      const size_t g = c / static_cast<size_t>(block_.group);
      if (block_.zero >= 0) {
        out[c] = scales[g] * static_cast<float>(codes[c] - block_.zero);
      } else {
        const float product = scales[g] * static_cast<float>(codes[c]);
        out[c] = product + biases[g];
      }
    }
  }

  const BlockFormat& block_;
};

}  // namespace

std::span<const Format* const> gguf_formats() {
  static const std::vector<const Format*> kAll = [] {
    static std::deque<GgufFormat> owned;
    std::vector<const Format*> all;
    for (const auto table : {simple_block_formats(), k_block_formats()}) {
      for (const BlockFormat& block : table) all.push_back(&owned.emplace_back(block));
    }
    return all;
  }();
  return kAll;
}

const Format* find_gguf_format(std::string_view type) {
  for (const Format* format : gguf_formats()) {
    if (type.starts_with('Q') && format->name().substr(1) == type.substr(1)) return format;
  }
  return nullptr;
}

}  // namespace penstock::quant
