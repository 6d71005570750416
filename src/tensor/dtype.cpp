#include "tensor/dtype.h"

#include <array>
#include <utility>

namespace penstock::tensor {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  size_t bytes;
};

constexpr std::array<Row, 13> kTable = {{
    {DType::kF32, "F32", 4},
    {DType::kF16, "F16", 2},
    {DType::kBF16, "BF16", 2},
    {DType::kF64, "F64", 8},
    {DType::kI8, "I8", 1},
    {DType::kI16, "I16", 2},
    {DType::kI32, "I32", 4},
    {DType::kI64, "I64", 8},
    {DType::kU8, "U8", 1},
    {DType::kU16, "U16", 2},
    {DType::kU32, "U32", 4},
    {DType::kU64, "U64", 8},
    {DType::kBool, "BOOL", 1},
}};

}  // namespace

size_t size_bytes(DType dtype) {
  return kTable[static_cast<size_t>(dtype)].bytes;
}

std::string_view name(DType dtype) {
  return kTable[static_cast<size_t>(dtype)].name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& row : kTable) {
    if (row.name == name) return row.dtype;
  }
  if (name == "F8_E4M3" || name == "F8_E8M0") return DType::kU8;
  return std::nullopt;
}

}  // namespace penstock::tensor
