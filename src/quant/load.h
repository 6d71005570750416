// Takes one matrix out of a checkpoint, checks every shape and names its format. One thread (the loader).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "quant/config.h"
#include "quant/matrix.h"
#include "tensor/weights.h"

namespace penstock::quant {

/// `<base>.weight`, with `<base>.scales` (and `<base>.biases`) when the module is quantised. The presence of
/// the scales decides whether it is; what the config says must then agree with the shapes. Throws
/// Error(kCorrupt) naming the tensor.
Matrix load_matrix(tensor::Weights& weights, std::string_view base, int64_t rows, int64_t cols,
                   const Config& config);

/// The vector `name` [cols] as a matrix of one row. Throws Error(kCorrupt) unless it is F32, F16 or BF16.
Matrix load_vector(tensor::Weights& weights, std::string_view name, int64_t cols);

/// One matrix of a GGUF file by its full tensor name ("blk.0.attn_q.weight").
/// Throws Error: kCorrupt for a wrong shape, kUnsupported for a block format that is not read here.
Matrix load_gguf_matrix(tensor::Weights& weights, std::string_view name, int64_t rows, int64_t cols);

/// The row order that undoes the interleaving which GGUF conversion applies to the q and k projections of
/// llama models: in each head of `head_dim` rows, stored row 2i is row i and stored row 2i+1 is row i +
/// head_dim/2.
std::vector<int32_t> undo_rope_interleave(int64_t rows, int64_t head_dim);

}  // namespace penstock::quant
