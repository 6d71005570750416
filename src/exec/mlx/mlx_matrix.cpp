#include "exec/mlx/mlx_matrix.h"

#include <cstring>
#include <vector>

#include "quant/format.h"

namespace penstock::exec::mlx {
namespace {

namespace mx = ::mlx::core;

mx::Shape shape_of(int64_t rows, int64_t cols) {
  return {static_cast<int>(rows), static_cast<int>(cols)};
}

bool has_affine_codes(const quant::Matrix& matrix) {
  if (!matrix.format->integer_codes(matrix)) return false;
  const int group = matrix.format->code_group(matrix), bits = matrix.format->code_bits(matrix);
  return (group == 32 || group == 64 || group == 128) && bits != 7;
}

bool has_floating_point_codes(const quant::Matrix& matrix) {
  const auto name = matrix.format->name();
  return (name == "mxfp4" || name == "mxfp8" || name == "nvfp4") && matrix.global_scale == 1 &&
         matrix.row_order.empty();
}

/// Appends one row of codes as MLX packs them: a stream of bits, least significant first.
void pack(std::span<const uint8_t> codes, int bits, std::vector<uint32_t>& out) {
  uint64_t pending = 0;
  int filled = 0;
  for (const uint8_t code : codes) {
    pending |= static_cast<uint64_t>(code) << filled;
    filled += bits;
    if (filled >= 32) {
      out.push_back(static_cast<uint32_t>(pending));
      pending >>= 32;
      filled -= 32;
    }
  }
}

template <class T>
std::vector<T> copy(const tensor::View& view) {
  std::vector<T> values(view.bytes.size() / sizeof(T));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

}  // namespace

MlxMatrix::MlxMatrix(const quant::Matrix& matrix) : weight_(0.0f) {
  if (has_floating_point_codes(matrix)) {
    set_floating_point_codes(matrix);
  } else if (has_affine_codes(matrix)) {
    set_affine(matrix);
  } else {
    set_dense(matrix);
  }
}

void MlxMatrix::set_dense(const quant::Matrix& matrix) {
  const auto cols = static_cast<size_t>(matrix.cols);
  std::vector<float> values(static_cast<size_t>(matrix.rows) * cols);
  for (int64_t row = 0; row < matrix.rows; ++row) {
    matrix.format->dequantize(matrix, row, std::span(values).subspan(static_cast<size_t>(row) * cols, cols));
  }
  weight_ = mx::array(values.begin(), shape_of(matrix.rows, matrix.cols), mx::float32);
}

void MlxMatrix::set_affine(const quant::Matrix& matrix) {
  mode_ = "affine";
  group_ = matrix.format->code_group(matrix);
  bits_ = matrix.format->code_bits(matrix);
  const int64_t groups = matrix.cols / group_;
  std::vector<uint8_t> codes(static_cast<size_t>(matrix.cols));
  std::vector<uint32_t> packed;
  std::vector<float> scales(static_cast<size_t>(matrix.rows * groups)), biases(scales.size());
  for (int64_t row = 0; row < matrix.rows; ++row) {
    const auto at = static_cast<size_t>(row * groups), n = static_cast<size_t>(groups);
    matrix.format->codes(matrix, row,
                         {codes, std::span(scales).subspan(at, n), std::span(biases).subspan(at, n)});
    pack(codes, bits_, packed);
  }
  weight_ = mx::array(packed.begin(), shape_of(matrix.rows, matrix.cols * bits_ / 32), mx::uint32);
  scales_ = mx::array(scales.begin(), shape_of(matrix.rows, groups), mx::float32);
  biases_ = mx::array(biases.begin(), shape_of(matrix.rows, groups), mx::float32);
}

void MlxMatrix::set_floating_point_codes(const quant::Matrix& matrix) {
  mode_ = matrix.format->name();
  group_ = matrix.group_size;
  bits_ = matrix.bits;
  const auto codes = copy<uint32_t>(matrix.codes);
  const auto scales = copy<uint8_t>(matrix.scales);
  weight_ = mx::array(codes.begin(), shape_of(matrix.rows, matrix.cols * bits_ / 32), mx::uint32);
  scales_ = mx::array(scales.begin(), shape_of(matrix.rows, matrix.cols / group_), mx::uint8);
}

mx::array MlxMatrix::multiply(const mx::array& x) const {
  if (mode_.empty()) return mx::matmul(x, mx::transpose(weight_));
  return mx::quantized_matmul(x, weight_, *scales_, biases_, true, group_, bits_, mode_);
}

mx::array MlxMatrix::rows(const mx::array& ids) const {
  if (mode_.empty()) return mx::take(weight_, ids, 0);
  std::optional<mx::array> biases;
  if (biases_) biases = mx::take(*biases_, ids, 0);
  const auto rows =
      mx::dequantize(mx::take(weight_, ids, 0), mx::take(*scales_, ids, 0), biases, group_, bits_, mode_);
  return mx::astype(rows, mx::float32);
}

mx::array MlxMatrix::vector() const {
  return mx::flatten(weight_);
}

void MlxMatrix::evaluate() {
  std::vector<mx::array> arrays = {weight_};
  if (scales_) arrays.push_back(*scales_);
  if (biases_) arrays.push_back(*biases_);
  mx::eval(arrays);
}

size_t MlxMatrix::bytes() const {
  return weight_.nbytes() + (scales_ ? scales_->nbytes() : 0) + (biases_ ? biases_->nbytes() : 0);
}

}  // namespace penstock::exec::mlx
