// Turns floating-point matrices into the formats of MLX, with the bits that mx.quantize makes. Plain
// function, any thread.
#pragma once

#include <string>
#include <vector>

#include "quant/config.h"
#include "tensor/checkpoint.h"

namespace penstock::quant {

/// The tensors `<base>.weight`, `<base>.scales` and, for affine, `<base>.biases` of an f32, f16 or bf16
/// matrix [rows, cols]; cols is a multiple of the group size. Affine scales and biases have the type of the
/// source. Throws Error(kInvalidRequest) for a matrix or parameters that no format takes.
std::vector<tensor::OwnedTensor> quantize(const tensor::View& source, const Params& params,
                                          const std::string& base);

}  // namespace penstock::quant
