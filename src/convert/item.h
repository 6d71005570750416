// What one module or tensor of a model becomes: where its rows come from and which tensors of the new files
// they fill. Plain data, any thread.
#pragma once

#include <string>
#include <vector>

#include "quant/config.h"
#include "quant/matrix.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace penstock::convert {

/// How the rows are made.
enum class Way {
  kCopy,      // the stored bytes
  kDense,     // floating-point values
  kCodes,     // the stored integer codes in the packing of MLX
  kQuantize,  // codes found anew, as mx.quantize finds them
};

/// What that does to the values.
enum class Effect { kUnchanged, kLossless, kRounded, kQuantized, kRequantized };

/// One tensor of the new files: `rows` of the item times row_bytes.
struct Part {
  std::string name;  // "model.embed_tokens.scales"
  std::string type;  // as safetensors names it: "BF16"
  tensor::Shape shape;
  size_t row_bytes = 0;
};

struct Item {
  Way way = Way::kCopy;
  Effect effect = Effect::kUnchanged;
  std::string from, to;                       // formats in words
  quant::Matrix matrix;                       // kCopy reads part i from its codes, scales, biases
  quant::Params params;                       // of kCodes and kQuantize
  tensor::DType dtype = tensor::DType::kF16;  // of the values, or of affine scales and biases
  float offset = 0;                           // kDense: added to every value
  int64_t rows = 0;
  std::vector<Part> parts;  // weight, then scales and biases where there are

  size_t size_bytes() const {
    size_t bytes = 0;
    for (const Part& part : parts) bytes += part.row_bytes * static_cast<size_t>(rows);
    return bytes;
  }
};

}  // namespace penstock::convert
