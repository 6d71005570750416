#include "quant/load.h"

#include "base/error.h"
#include "quant/format_list.h"

namespace penstock::quant {
namespace {

using base::Code;
using base::Error;
using tensor::DType;
using tensor::Shape;
using tensor::View;

Error corrupt(const std::string& expected, const std::string& name, const std::string& got) {
  return Error(Code::kCorrupt, "[quant.load] expected " + expected + " for " + name + "; got " + got);
}

std::string to_string(const Params& params) {
  return params.mode + ", " + std::to_string(params.bits) + " bits, group " +
         std::to_string(params.group_size);
}

const Format& dense_format(const View& view, const std::string& name) {
  switch (view.dtype) {
    case DType::kF32:
      return dense_f32();
    case DType::kF16:
      return dense_f16();
    case DType::kBF16:
      return dense_bf16();
    default:
      throw corrupt("F32, F16 or BF16", name, std::string(tensor::name(view.dtype)));
  }
}

Matrix empty_matrix(int64_t rows, int64_t cols, const std::string& name) {
  if (rows < 1 || cols < 1)
    throw corrupt("at least one row and column", name, tensor::to_string({rows, cols}));
  Matrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  return matrix;
}

/// bits and group_size follow from the shapes alone; the mode from them and the type of the scales.
Params infer(const View& weight, const View& scales, const Matrix& matrix, const std::string& name) {
  const auto shape_is = [&](const View& view) {
    return view.shape.size() == 2 && view.shape[0] == matrix.rows;
  };
  if (weight.dtype != DType::kU32 || !shape_is(weight)) {
    throw corrupt("packed codes, U32 [" + std::to_string(matrix.rows) + ", *]", name + ".weight",
                  std::string(tensor::name(weight.dtype)) + tensor::to_string(weight.shape));
  }
  if (!shape_is(scales) || scales.shape[1] < 1 || matrix.cols % scales.shape[1] != 0) {
    throw corrupt(
        "scales [" + std::to_string(matrix.rows) + ", a divisor of " + std::to_string(matrix.cols) + "]",
        name + ".scales", tensor::to_string(scales.shape));
  }
  const int64_t group = matrix.cols / scales.shape[1];
  const int64_t row_bits = weight.shape[1] > matrix.cols ? 0 : weight.shape[1] * 32;
  const int64_t bits = row_bits % matrix.cols == 0 ? row_bits / matrix.cols : 0;
  const bool bytes = scales.dtype == DType::kU8;
  const auto is = [&](int64_t b, int64_t g) { return bits == b && group == g; };
  Params params = {"affine", static_cast<int>(group), static_cast<int>(bits)};
  if (bytes && is(4, 32)) params.mode = "mxfp4";
  if (bytes && is(8, 32)) params.mode = "mxfp8";
  if (bytes && is(4, 16)) params.mode = "nvfp4";
  const bool affine_shape =
      (group == 32 || group == 64 || group == 128) && bits >= 2 && bits <= 8 && bits != 7;
  if (bytes ? params.mode == "affine" : !affine_shape) {
    throw corrupt("codes and scales of a known format", name,
                  "codes " + tensor::to_string(weight.shape) + " and scales " +
                      std::string(tensor::name(scales.dtype)) + tensor::to_string(scales.shape) + " for " +
                      std::to_string(matrix.cols) + " columns");
  }
  return params;
}

void take_biases(tensor::Weights& weights, const std::string& base, Matrix& matrix) {
  const std::string name = weights.full_name(base);
  if (matrix.scales.dtype == DType::kU8) {
    if (weights.has(base + ".biases")) throw corrupt("no biases beside byte scales", name, name + ".biases");
    return;
  }
  dense_format(matrix.scales, name + ".scales");
  matrix.biases = weights.take(base + ".biases", matrix.scales.shape);
  dense_format(matrix.biases, name + ".biases");
}

/// MLX stores the largest magnitude that the matrix can hold; the codes and scales reach 6 and 448.
void take_global_scale(tensor::Weights& weights, const std::string& base, Matrix& matrix) {
  const std::string name = base + ".global_scale";
  if (!weights.has(name)) return;
  const View view = weights.take_any(name);
  if (matrix.format != &nvfp4() || view.elements() != 1) {
    throw corrupt("one number beside nvfp4 codes", weights.full_name(name), tensor::to_string(view.shape));
  }
  matrix.global_scale = tensor::to_f32(view)[0] / (6.0f * 448.0f);
}

Matrix load_dense(tensor::Weights& weights, const std::string& base, Matrix matrix,
                  bool config_says_quantised) {
  const std::string name = weights.full_name(base) + ".weight";
  if (config_says_quantised)
    throw corrupt(weights.full_name(base) + ".scales, as config.json says", name, "no scales");
  matrix.codes = weights.take(base + ".weight", {matrix.rows, matrix.cols});
  matrix.format = &dense_format(matrix.codes, name);
  matrix.bits = static_cast<int>(tensor::size_bytes(matrix.codes.dtype)) * 8;
  return matrix;
}

}  // namespace

Matrix load_matrix(tensor::Weights& weights, std::string_view base, int64_t rows, int64_t cols,
                   const Config& config) {
  const std::string module(base);
  const std::string name = weights.full_name(base);
  const std::optional<std::optional<Params>> named = config.find_override(name);
  Matrix matrix = empty_matrix(rows, cols, name);
  if (!weights.has(module + ".scales")) {
    return load_dense(weights, module, std::move(matrix), named.has_value() && named->has_value());
  }
  if (!config.base && !named) {
    throw corrupt("a quantization section in config.json", name + ".scales", "none");
  }
  matrix.codes = weights.take_any(module + ".weight");
  matrix.scales = weights.take_any(module + ".scales");
  const Params params = infer(matrix.codes, matrix.scales, matrix, name);
  // The shapes alone would do, but a config that contradicts them is of other weights.
  const std::optional<Params>& said = named ? *named : config.base;
  if (said != params) {
    throw corrupt((said ? to_string(*said) : "floating point") + ", as config.json says", name,
                  to_string(params));
  }
  matrix.bits = params.bits;
  matrix.group_size = params.group_size;
  matrix.format = find_format(params.mode);
  take_biases(weights, module, matrix);
  take_global_scale(weights, module, matrix);
  return matrix;
}

Matrix load_vector(tensor::Weights& weights, std::string_view name, int64_t cols) {
  Matrix matrix = empty_matrix(1, cols, weights.full_name(name));
  matrix.codes = weights.take(name, {cols});
  matrix.format = &dense_format(matrix.codes, weights.full_name(name));
  matrix.bits = static_cast<int>(tensor::size_bytes(matrix.codes.dtype)) * 8;
  return matrix;
}

Matrix load_gguf_matrix(tensor::Weights& weights, std::string_view name, int64_t rows, int64_t cols) {
  const tensor::StoredTensor& stored = weights.take_stored(name);
  if (stored.shape != Shape{rows, cols}) {
    throw corrupt("shape " + tensor::to_string({rows, cols}), stored.name, tensor::to_string(stored.shape));
  }
  Matrix matrix = empty_matrix(rows, cols, stored.name);
  if (stored.dtype) {
    matrix.codes = {*stored.dtype, stored.shape, stored.bytes};
    matrix.format = &dense_format(matrix.codes, stored.name);
    matrix.bits = static_cast<int>(tensor::size_bytes(*stored.dtype)) * 8;
    return matrix;
  }
  matrix.format = stored.ggml_type ? find_gguf_format(stored.type) : nullptr;
  if (matrix.format == nullptr) {
    throw Error(Code::kUnsupported, "[quant.load] expected a tensor type that is read here for " +
                                        stored.name + "; got " + stored.type);
  }
  matrix.codes = {DType::kU8, {rows, static_cast<int64_t>(matrix.format->row_bytes(matrix))}, stored.bytes};
  matrix.bits = matrix.format->code_bits(matrix);
  matrix.group_size = matrix.format->code_group(matrix);
  return matrix;
}

std::vector<int32_t> undo_rope_interleave(int64_t rows, int64_t head_dim) {
  if (head_dim < 2 || head_dim % 2 != 0 || rows % head_dim != 0) {
    throw Error(Code::kInternal, "[quant.undo_rope_interleave] expected whole heads of an even size; got " +
                                     std::to_string(rows) + " rows, heads of " + std::to_string(head_dim));
  }
  std::vector<int32_t> order(static_cast<size_t>(rows));
  const int64_t half = head_dim / 2;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t in_head = r % head_dim;
    order[static_cast<size_t>(r)] = static_cast<int32_t>(r - in_head + 2 * (in_head % half) + in_head / half);
  }
  return order;
}

}  // namespace penstock::quant
