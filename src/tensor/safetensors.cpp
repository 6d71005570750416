#include "tensor/safetensors.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "tensor/table_json.h"

namespace penstock::tensor {
namespace {

using base::Code;
using base::Error;
using Json = TableJson;

constexpr uint64_t kPrefixBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's own limit

Error corrupt(const std::string& what, const std::string& expected, const std::string& got) {
  return Error(Code::kCorrupt, "[tensor.safetensors] expected " + expected + " in " + what + "; got " + got);
}

std::string_view header_text(std::span<const std::byte> bytes, const std::string& what) {
  if (bytes.size() < kPrefixBytes) {
    throw corrupt(what, "an 8-byte header length", "a file of " + std::to_string(bytes.size()) + " bytes");
  }
  const auto length = load<uint64_t>(bytes.data());
  if (length > kMaxHeaderBytes) {
    throw corrupt(what, "a header of at most " + std::to_string(kMaxHeaderBytes) + " bytes",
                  std::to_string(length));
  }
  if (length > bytes.size() - kPrefixBytes) {
    throw corrupt(
        what, "a header of " + std::to_string(length) + " bytes",
        "a file that ends " + std::to_string(length - (bytes.size() - kPrefixBytes)) + " bytes too early");
  }
  return {reinterpret_cast<const char*>(bytes.data()) + kPrefixBytes, static_cast<size_t>(length)};
}

uint64_t unsigned_value(const Json& value, const std::string& what, const std::string& name) {
  if (!value.is_number_unsigned()) throw corrupt(what, "an unsigned number for " + name, value.dump());
  return value.get<uint64_t>();
}

const Json& field(const Json& entry, const char* key, const std::string& what, const std::string& name) {
  const auto found = entry.find(key);
  if (found == entry.end()) throw corrupt(what, std::string(key) + " of " + name, "none");
  return *found;
}

Shape read_shape(const Json& value, const std::string& what, const std::string& name) {
  if (!value.is_array() || value.size() > 16)
    throw corrupt(what, "a shape of at most 16 dimensions for " + name, value.dump());
  Shape shape;
  for (const Json& dimension : value) {
    const uint64_t n = unsigned_value(dimension, what, name);
    if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw corrupt(what, "dimensions below 2^63 for " + name, std::to_string(n));
    }
    shape.push_back(static_cast<int64_t>(n));
  }
  return shape;
}

/// Bytes of a tensor of this shape; the product must fit 63 bits.
uint64_t shape_bytes(const Shape& shape, DType dtype, const std::string& what, const std::string& name) {
  uint64_t bytes = size_bytes(dtype);
  for (const int64_t n : shape) {
    if (n != 0 &&
        bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / static_cast<uint64_t>(n)) {
      throw corrupt(what, "a shape of " + name + " that fits memory", to_string(shape));
    }
    bytes *= static_cast<uint64_t>(n);
  }
  return bytes;
}

struct Range {
  uint64_t begin;
  uint64_t end;
};

Range read_range(const Json& value, const std::string& what, const std::string& name) {
  if (!value.is_array() || value.size() != 2)
    throw corrupt(what, "two data_offsets for " + name, value.dump());
  const Range range = {unsigned_value(value[0], what, name), unsigned_value(value[1], what, name)};
  if (range.end < range.begin) throw corrupt(what, "data_offsets of " + name + " in order", value.dump());
  return range;
}

StoredTensor read_entry(const std::string& name, const Json& entry, std::span<const std::byte> data,
                        const std::string& what) {
  const Json& type = field(entry, "dtype", what, name);
  if (!type.is_string()) throw corrupt(what, "a dtype name for " + name, type.dump());
  StoredTensor tensor;
  tensor.name = name;
  tensor.type = type.get<std::string>();
  tensor.dtype = dtype_from_name(tensor.type);
  tensor.shape = read_shape(field(entry, "shape", what, name), what, name);
  const Range range = read_range(field(entry, "data_offsets", what, name), what, name);
  tensor.bytes = data.subspan(range.begin, range.end - range.begin);
  if (tensor.dtype) {
    const uint64_t expected = shape_bytes(tensor.shape, *tensor.dtype, what, name);
    if (expected != tensor.bytes.size()) {
      throw corrupt(
          what,
          std::to_string(expected) + " bytes for " + name + ", " + tensor.type + to_string(tensor.shape),
          std::to_string(tensor.bytes.size()));
    }
  }
  return tensor;
}

/// Before any single tensor is read, so that a truncated download is called that.
void check_complete(const Json& header, std::span<const std::byte> data, const std::string& what) {
  uint64_t needed = 0;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    if (!entry.is_object()) throw corrupt(what, "an object for " + name, entry.type_name());
    needed = std::max(needed, read_range(field(entry, "data_offsets", what, name), what, name).end);
  }
  if (needed > data.size()) {
    throw corrupt(what, std::to_string(needed) + " bytes of tensors",
                  "a truncated file: " + std::to_string(needed - data.size()) + " bytes are missing");
  }
}

/// The format wants the tensors to fill the data without overlaps and holes.
void check_layout(const std::vector<StoredTensor>& tensors, std::span<const std::byte> data,
                  const std::string& what) {
  const std::byte* at = data.data();
  for (const StoredTensor& tensor : tensors) {
    if (tensor.bytes.data() < at)
      throw corrupt(what, "tensors that do not overlap", "an overlap at " + tensor.name);
    if (tensor.bytes.data() > at)
      throw corrupt(what, "tensors without holes between", "a hole before " + tensor.name);
    at = tensor.bytes.data() + tensor.bytes.size();
  }
  const auto used = static_cast<size_t>(at - data.data());
  if (used != data.size()) {
    throw corrupt(what, "the file to end with its last tensor",
                  std::to_string(data.size() - used) + " bytes more");
  }
}

std::map<std::string, std::string> read_metadata(const Json& value, const std::string& what) {
  std::map<std::string, std::string> metadata;
  if (value.is_null()) return metadata;  // MLX writes null when it has none
  if (!value.is_object()) throw corrupt(what, "an object for __metadata__", value.type_name());
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) throw corrupt(what, "a string for metadata " + key, text.type_name());
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

}  // namespace

SafetensorsTable parse_safetensors(std::span<const std::byte> bytes, const std::string& what) {
  const std::string_view text = header_text(bytes, what);
  const std::span<const std::byte> data = bytes.subspan(kPrefixBytes + text.size());
  SafetensorsTable table;
  const Json header = parse_table(text, what);
  if (!header.is_object()) throw corrupt(what, "a JSON object as header", header.type_name());
  check_complete(header, data, what);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      table.metadata = read_metadata(entry, what);
    } else {
      table.tensors.push_back(read_entry(name, entry, data, what));
    }
  }
  std::stable_sort(
      table.tensors.begin(), table.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
        return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
      });
  check_layout(table.tensors, data, what);
  return table;
}

}  // namespace penstock::tensor
