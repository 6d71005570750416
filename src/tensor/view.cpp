#include "tensor/view.h"

#include "base/error.h"

namespace penstock::tensor {

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

void read_f32(const View& view, int64_t first, std::span<float> out) {
  const auto count = static_cast<int64_t>(out.size());
  if (first < 0 || first > view.elements() - count) {
    throw base::Error(base::Code::kCorrupt, "[tensor.read_f32] expected a tensor of at least " +
                                                std::to_string(first + count) + " elements; got " +
                                                std::to_string(view.elements()));
  }
  const std::byte* at = view.bytes.data() + static_cast<size_t>(first) * size_bytes(view.dtype);
  switch (view.dtype) {
    case DType::kF32:
      if (count) std::memcpy(out.data(), at, out.size_bytes());
      return;
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) out[i] = f16_to_f32(load<uint16_t>(at + 2 * i));
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < count; ++i) out[i] = bf16_to_f32(load<uint16_t>(at + 2 * i));
      return;
    default:
      throw base::Error(base::Code::kCorrupt,
                        "[tensor.read_f32] expected F32, F16 or BF16; got " + std::string(name(view.dtype)));
  }
}

void write_f32(std::span<const float> values, DType dtype, std::byte* out) {
  if (dtype == DType::kF32) {
    if (!values.empty()) std::memcpy(out, values.data(), values.size_bytes());
    return;
  }
  if (dtype != DType::kF16 && dtype != DType::kBF16) {
    throw base::Error(base::Code::kInternal,
                      "[tensor.write_f32] expected F32, F16 or BF16; got " + std::string(name(dtype)));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = dtype == DType::kF16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
    std::memcpy(out + 2 * i, &half, sizeof half);
  }
}

std::vector<float> to_f32(const View& view) {
  std::vector<float> out(static_cast<size_t>(view.elements()));
  read_f32(view, 0, out);
  return out;
}

}  // namespace penstock::tensor
