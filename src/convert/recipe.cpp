#include "convert/recipe.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "convert/exactness.h"
#include "models/family.h"
#include "quant/format.h"

namespace penstock::convert {
namespace {

using base::Json;
using models::ModelFiles;
using quant::Matrix;
using quant::Params;
using tensor::DType;

bool is_dense(const Matrix& matrix) {
  return matrix.group_size == 0;
}

/// Matrices of a GGUF file have their scales inside the codes.
bool is_mlx(const Matrix& matrix) {
  return !is_dense(matrix) && !matrix.scales.bytes.empty();
}

/// The MLX format that holds the stored codes as they are; nothing for dense ones and for groups of 16.
std::optional<Params> same_codes(const Matrix& matrix) {
  if (is_mlx(matrix)) return Params{std::string(matrix.format->name()), matrix.group_size, matrix.bits};
  if (is_dense(matrix) || !matrix.format->integer_codes(matrix)) return std::nullopt;
  const Params params = {"affine", matrix.format->code_group(matrix), matrix.format->code_bits(matrix)};
  return params.group_size >= 32 ? std::optional(params) : std::nullopt;
}

std::string describe(const Params& params) {
  if (params.mode != "affine") return params.mode;
  return "affine " + std::to_string(params.bits) + "-bit group " + std::to_string(params.group_size);
}

std::string describe(DType dtype) {
  return dtype == DType::kF32 ? "f32" : dtype == DType::kF16 ? "f16" : "bf16";
}

std::string python_name(DType dtype) {
  return dtype == DType::kF32 ? "float32" : dtype == DType::kF16 ? "float16" : "bfloat16";
}

/// float16 is the more precise of the two, but gemma's activations leave its range.
std::array<DType, 2> halves(const models::ModelSpec& spec) {
  if (spec.family.starts_with("gemma")) return {DType::kBF16, DType::kF16};
  return {DType::kF16, DType::kBF16};
}

Json to_json(const Params& params) {
  return {{"group_size", params.group_size}, {"bits", params.bits}, {"mode", params.mode}};
}

class Maker {
 public:
  Maker(const ModelFiles& files, const Wish& wish, int threads, const std::atomic<bool>* cancel)
      : files_(files),
        wish_(wish),
        threads_(threads),
        cancel_(cancel),
        gguf_(files.checkpoint->gguf() != nullptr) {
    // Files of gemma hold norms plus the offset that the spec of an MLX directory adds.
    if (gguf_) norm_offset_ = files.spec.norm_offset - models::read_spec(files.config).norm_offset;
    const std::string first = files.plan.weights.front().name + ".weight";
    if (!gguf_ && files.checkpoint->find(first) == nullptr) prefix_ = "language_model.";
    choose_types();
  }

  Recipe make() {
    for (size_t i = 0; i < files_.plan.weights.size(); ++i) {
      const models::WeightSpec& spec = files_.plan.weights[i];
      add(spec.vector ? vector_item(spec, files_.weights[i]) : matrix_item(spec, files_.weights[i]));
    }
    if (!gguf_) add_other_tensors();
    write_config();
    return std::move(recipe_);
  }

 private:
  void check_cancelled() const {
    if (cancel_ != nullptr && cancel_->load())
      throw base::Error(base::Code::kCancelled, "[convert.recipe] interrupted");
  }

  void add(Item item) {
    check_cancelled();
    for (const Part& part : item.parts) used_.insert(part.name);
    files_.checkpoint->drop(item.matrix.codes.bytes);  // what was looked at for exactness
    recipe_.requantizes |= item.effect == Effect::kRequantized;
    recipe_.items.push_back(std::move(item));
  }

  float offset_of(const models::WeightSpec& spec) const {
    return spec.name.ends_with("norm.weight") ? norm_offset_ : 0;
  }

  /// The vectors of a GGUF file are F32 whatever they were before: they share the narrowest type that holds
  /// all of them. New scales get that type too, though never float32 for the vectors' sake alone.
  void choose_types() {
    const auto order = halves(files_.spec);
    std::vector<size_t> vectors;
    for (size_t i = 0; i < files_.plan.weights.size(); ++i) {
      if (files_.plan.weights[i].vector) vectors.push_back(i);
    }
    vector_type_ = DType::kF32;
    for (const DType dtype : order) {
      const bool all = std::all_of(vectors.begin(), vectors.end(), [&](size_t i) {
        return holds_values(dtype, files_.weights[i], offset_of(files_.plan.weights[i]), 1);
      });
      if (all && vector_type_ == DType::kF32) vector_type_ = dtype;
    }
    value_type_ = vector_type_ == DType::kF32 ? order[0] : vector_type_;
    if (!gguf_ && !vectors.empty()) value_type_ = files_.weights[vectors.front()].codes.dtype;
  }

  Item vector_item(const models::WeightSpec& spec, const Matrix& matrix) {
    const float offset = offset_of(spec);
    const DType stored = matrix.codes.dtype;
    const DType dtype = wish_.dtype.value_or(gguf_ ? vector_type_ : stored);
    Item item = dense_item(prefix_ + spec.name, matrix, dtype, offset);
    item.parts[0].shape = {matrix.cols};
    return item;
  }

  Item matrix_item(const models::WeightSpec& spec, const Matrix& matrix) {
    const std::string name = prefix_ + spec.name;
    if (wish_.dequantize && !is_dense(matrix)) {
      remade_.insert(name);
      return dense_item(name + ".weight", matrix, wish_.dtype.value_or(value_type(matrix)), 0);
    }
    const std::optional<Params> have = same_codes(matrix);
    if (wish_.format && matrix.cols % wish_.format->group_size == 0 && have != wish_.format)
      return quantized_item(name, matrix);
    if (have) return codes_item(name, matrix, *have);
    if (is_dense(matrix))
      return dense_item(name + ".weight", matrix, wish_.dtype.value_or(matrix.codes.dtype), 0);
    return dense_item(name + ".weight", matrix, wish_.dtype.value_or(narrowest(matrix)), 0);
  }

  /// The floating-point type that stands for the matrix where none is asked for.
  DType value_type(const Matrix& matrix) const {
    if (is_dense(matrix)) return matrix.codes.dtype;
    const bool typed = is_mlx(matrix) && matrix.scales.dtype != DType::kU8;
    return typed ? matrix.scales.dtype : value_type_;
  }

  DType narrowest(const Matrix& matrix) const {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      if (holds_values(dtype, matrix, 0, threads_)) return dtype;
    }
    return DType::kF32;
  }

  Item start(const Matrix& matrix, Way way, Effect effect, const std::string& to) const {
    Item item;
    item.way = way;
    item.effect = effect;
    item.from = convert::describe(matrix);
    item.to = to;
    item.matrix = matrix;
    item.rows = matrix.rows;
    return item;
  }

  static Part part(const std::string& name, DType dtype, int64_t rows, int64_t cols) {
    return {name,
            std::string(tensor::name(dtype)),
            {rows, cols},
            static_cast<size_t>(cols) * tensor::size_bytes(dtype)};
  }

  Item dense_item(const std::string& name, const Matrix& matrix, DType dtype, float offset) const {
    const bool same = is_dense(matrix) && matrix.codes.dtype == dtype && offset == 0;
    const bool exact = same || holds_values(dtype, matrix, offset, threads_);
    Item item = start(matrix, same ? Way::kCopy : Way::kDense,
                      same    ? Effect::kUnchanged
                      : exact ? Effect::kLossless
                              : Effect::kRounded,
                      describe(dtype));
    item.dtype = dtype;
    item.offset = offset;
    item.parts = {part(name, dtype, matrix.rows, matrix.cols)};
    return item;
  }

  static void add_parts(Item& item, const std::string& name, DType scales, bool biases) {
    const int64_t rows = item.matrix.rows;
    const int64_t cols = item.matrix.cols;
    item.parts.push_back(part(name + ".weight", DType::kU32, rows, cols * item.params.bits / 32));
    item.parts.push_back(part(name + ".scales", scales, rows, cols / item.params.group_size));
    if (biases) item.parts.push_back(part(name + ".biases", scales, rows, cols / item.params.group_size));
  }

  Item codes_item(const std::string& name, const Matrix& matrix, const Params& params) {
    const bool affine = params.mode == "affine";
    const bool same =
        is_mlx(matrix) && (!affine || !wish_.dtype ||
                           (matrix.scales.dtype == *wish_.dtype && matrix.biases.dtype == *wish_.dtype));
    Item item = start(matrix, same ? Way::kCopy : Way::kCodes, Effect::kUnchanged, describe(params));
    item.params = params;
    if (same) {
      item.dtype = matrix.scales.dtype;
      add_parts(item, name, matrix.scales.dtype, affine);
      if (affine) item.parts[2].type = tensor::name(matrix.biases.dtype);
      if (affine)
        item.parts[2].row_bytes =
            static_cast<size_t>(matrix.cols / params.group_size) * tensor::size_bytes(matrix.biases.dtype);
    } else {
      const bool half = !wish_.dtype && holds_scales(DType::kF16, matrix, threads_);
      item.dtype = wish_.dtype.value_or(half ? DType::kF16 : DType::kF32);
      item.effect = holds_scales(item.dtype, matrix, threads_) ? Effect::kLossless : Effect::kRounded;
      add_parts(item, name, item.dtype, true);
    }
    remember(name, item);
    return item;
  }

  Item quantized_item(const std::string& name, const Matrix& matrix) {
    const Params& params = *wish_.format;
    const bool affine = params.mode == "affine";
    Item item = start(matrix, Way::kQuantize, is_dense(matrix) ? Effect::kQuantized : Effect::kRequantized,
                      describe(params));
    item.params = params;
    item.dtype = wish_.dtype.value_or(value_type(matrix));
    add_parts(item, name, affine ? item.dtype : DType::kU8, affine);
    remember(name, item);
    return item;
  }

  void remember(const std::string& name, const Item& item) {
    quantized_[name] = {item.params, item.matrix.rows * item.matrix.cols};
    if (item.way != Way::kCopy) remade_.insert(name);
  }

  /// Scales and biases of a module whose new form has none.
  bool is_stale(const std::string& name) const {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos) return false;
    const std::string tail = name.substr(dot);
    return (tail == ".global_scale" || tail == ".scales" || tail == ".biases") &&
           remade_.contains(name.substr(0, dot));
  }

  /// Towers of other modalities go over as they are; what mlx-lm drops at loading is dropped here.
  void add_other_tensors() {
    for (const auto& [name, stored] : files_.checkpoint->tensors()) {
      const bool drop = name.ends_with("rotary_emb.inv_freq") ||
                        (files_.spec.tied_head && name.starts_with(prefix_ + "lm_head."));
      if (drop || is_stale(name) || used_.contains(name)) continue;
      Item item;
      item.rows = stored.shape.empty() ? 1 : stored.shape[0];
      item.from = item.to = stored.type;
      item.matrix.codes = {stored.dtype.value_or(DType::kU8), stored.shape, stored.bytes};
      item.parts = {{name, stored.type, stored.shape,
                     item.rows == 0 ? 0 : stored.bytes.size() / static_cast<size_t>(item.rows)}};
      add(std::move(item));
    }
  }

  Params most_common() const {
    std::map<std::string, std::pair<int64_t, Params>> counts;
    for (const auto& [name, entry] : quantized_) {
      auto& count = counts[describe(entry.first)];
      count = {count.first + entry.second, entry.first};
    }
    return std::max_element(counts.begin(), counts.end(),
                            [](const auto& a, const auto& b) { return a.second.first < b.second.first; })
        ->second.second;
  }

  void write_config() {
    if (gguf_ || wish_.dtype) recipe_.dtype = python_name(wish_.dtype.value_or(vector_type_));
    if (quantized_.empty()) return;
    const Params rule = wish_.format ? *wish_.format : most_common();
    recipe_.quantization = to_json(rule);
    for (const auto& [name, entry] : quantized_) {
      if (entry.first != rule) recipe_.quantization[name] = to_json(entry.first);
    }
  }

  const ModelFiles& files_;
  const Wish& wish_;
  int threads_;
  const std::atomic<bool>* cancel_;
  bool gguf_;
  float norm_offset_ = 0;
  std::string prefix_;
  DType vector_type_ = DType::kF32;
  DType value_type_ = DType::kF16;
  std::set<std::string> used_, remade_;
  std::map<std::string, std::pair<Params, int64_t>> quantized_;  // module: parameters, elements
  Recipe recipe_;
};

}  // namespace

std::string describe(const Matrix& matrix) {
  if (is_mlx(matrix))
    return describe(Params{std::string(matrix.format->name()), matrix.group_size, matrix.bits});
  return std::string(matrix.format->name());
}

Recipe make_recipe(const ModelFiles& files, const Wish& wish, int threads, const std::atomic<bool>* cancel) {
  if (files.spec.encoder) {
    throw base::Error(base::Code::kUnsupported,
                      "[convert.recipe] expected a model that generates text; got " + files.spec.family +
                          ", which encodes texts");
  }
  return Maker(files, wish, threads, cancel).make();
}

}  // namespace penstock::convert
