// Decides what every tensor of a model becomes. Loader thread. Reads weights only where exactness has to be
// known; makes nothing.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "base/json.h"
#include "convert/item.h"
#include "models/model_files.h"

namespace penstock::convert {

struct Wish {
  std::optional<quant::Params> format;  // empty: keep each matrix as exactly as MLX can
  bool dequantize = false;              // every matrix dense
  std::optional<tensor::DType> dtype;   // of everything that is not codes; empty: as stored
};

struct Recipe {
  std::vector<Item> items;   // in the order of the new files
  base::Json quantization;   // for config.json; null when nothing is quantised
  std::string dtype;         // the model's floating-point type as config.json names it; empty: as before
  bool requantizes = false;  // some matrix is quantised that was quantised another way before
};

/// Throws Error(kCancelled) when the flag is set meanwhile.
Recipe make_recipe(const models::ModelFiles& files, const Wish& wish, int threads,
                   const std::atomic<bool>* cancel);

/// "affine 4-bit group 32", "bf16", "q6_K".
std::string describe(const quant::Matrix& matrix);

}  // namespace penstock::convert
