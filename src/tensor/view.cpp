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

std::vector<float> to_f32(const View& view) {
  std::vector<float> out(static_cast<size_t>(view.elements()));
  read_f32(view, 0, out);
  return out;
}

}  // namespace penstock::tensor
