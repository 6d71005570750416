// One entry of a weight file's table: where a tensor lies and how the file types it. Not owning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tensor/view.h"

namespace penstock::tensor {

struct StoredTensor {
  std::string name;
  std::string type;                   // as the file writes it: "BF16", "Q4_K", "F8_E5M2"
  std::optional<DType> dtype;         // empty: a block format, or a type this program does not know
  std::optional<uint32_t> ggml_type;  // set for a tensor of a GGUF file
  Shape shape;                        // row-major; GGUF dimensions are reversed to this order
  std::span<const std::byte> bytes;
};

}  // namespace penstock::tensor
