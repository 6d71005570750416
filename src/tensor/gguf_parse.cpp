#include <algorithm>
#include <limits>

#include "base/error.h"
#include "tensor/gguf.h"

namespace penstock::tensor {
namespace {

using base::Code;
using base::Error;

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kMaxDimensions = 4;
constexpr int kMaxNesting = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxArray = 1 << 24;  // values; real vocabularies have under a million
constexpr uint64_t kMaxCount = std::numeric_limits<int64_t>::max();

enum ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
  kValueTypes
};

// Bytes of one value in the file; a string has at least its length, an array its type and length.
constexpr uint64_t kMinBytes[kValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

}  // namespace

/// Walks the file once; every read is checked against the end.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, const std::string& what) : bytes_(bytes), what_(what) {
    out_.what_ = what;
  }

  Gguf run() {
    read_version();
    const auto tensors = read<uint64_t>("the tensor count");
    const auto pairs = read<uint64_t>("the metadata count");
    for (uint64_t i = 0; i < pairs; ++i) read_pair();
    refuse_split();
    for (uint64_t i = 0; i < tensors; ++i) read_tensor();
    place_tensors();
    return std::move(out_);
  }

 private:
  Error corrupt(const std::string& expected, const std::string& got) const {
    return Error(Code::kCorrupt, "[tensor.gguf] expected " + expected + " in " + what_ + "; got " + got);
  }

  Error unsupported(const std::string& expected, const std::string& got) const {
    return Error(Code::kUnsupported, "[tensor.gguf] expected " + expected + " in " + what_ + "; got " + got);
  }

  uint64_t left() const { return bytes_.size() - at_; }

  void need(uint64_t count, std::string_view subject) const {
    if (count > left()) {
      throw corrupt(std::to_string(count) + " bytes for " + std::string(subject),
                    "a truncated file: " + std::to_string(count - left()) + " bytes are missing");
    }
  }

  template <class T>
  T read(std::string_view subject) {
    need(sizeof(T), subject);
    const T value = load<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return value;
  }

  std::string_view read_text(std::string_view subject) {
    const auto length = read<uint64_t>(subject);
    need(length, subject);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
    at_ += length;
    return text;
  }

  void read_version() {
    if (bytes_.size() < 8 || load<uint32_t>(bytes_.data()) != kMagic)
      throw corrupt("the letters GGUF", "other bytes");
    at_ = 4;
    const auto version = read<uint32_t>("the version");
    if (version != 0 && (version & 0xffff) == 0)
      throw unsupported("a little-endian file", "a big-endian one");
    if (version != 2 && version != 3)
      throw unsupported("GGUF version 2 or 3", "version " + std::to_string(version));
  }

  ValueType read_value_type(std::string_view key) {
    const auto type = read<uint32_t>(key);
    if (type >= kValueTypes)
      throw corrupt("a known value type for " + std::string(key), std::to_string(type));
    return static_cast<ValueType>(type);
  }

  void read_pair() {
    const std::string_view key = read_text("a metadata key");
    const ValueType type = read_value_type(key);
    GgufValue value = read_value(type, key, 0);
    if (!out_.metadata_.emplace(std::string(key), std::move(value)).second) {
      throw corrupt("each metadata key once", "two of " + std::string(key));
    }
  }

  GgufValue read_value(ValueType type, std::string_view key, int depth) {
    switch (type) {
      case kUint8:
        return uint64_t{read<uint8_t>(key)};
      case kInt8:
        return int64_t{read<int8_t>(key)};
      case kUint16:
        return uint64_t{read<uint16_t>(key)};
      case kInt16:
        return int64_t{read<int16_t>(key)};
      case kUint32:
        return uint64_t{read<uint32_t>(key)};
      case kInt32:
        return int64_t{read<int32_t>(key)};
      case kFloat32:
        return double{read<float>(key)};
      case kBool:
        return read<uint8_t>(key) != 0;
      case kString:
        return read_text(key);
      case kArray:
        return read_array(key, depth);
      case kUint64:
        return read<uint64_t>(key);
      case kInt64:
        return read<int64_t>(key);
      default:
        return read<double>(key);
    }
  }

  GgufValue read_array(std::string_view key, int depth) {
    const ValueType type = read_value_type(key);
    const auto count = read<uint64_t>(key);
    // Before any memory is set aside for it.
    if (count > kMaxArray || count > left() / kMinBytes[type]) {
      throw corrupt("an array of " + std::to_string(count) + " values for " + std::string(key),
                    "a file with " + std::to_string(left()) + " bytes left");
    }
    if (type == kArray) return skip_nested(key, count, depth + 1);
    if (type == kString) {
      std::vector<std::string_view> texts(count);
      for (std::string_view& text : texts) text = read_text(key);
      return texts;
    }
    if (type == kFloat32 || type == kFloat64) {
      std::vector<float> numbers(count);
      for (float& number : numbers) {
        number = type == kFloat32 ? read<float>(key) : static_cast<float>(read<double>(key));
      }
      return numbers;
    }
    std::vector<int64_t> integers(count);
    for (int64_t& integer : integers) integer = read_integer(type, key);
    return integers;
  }

  int64_t read_integer(ValueType type, std::string_view key) {
    const GgufValue value = read_value(type, key, 0);
    if (const auto* number = std::get_if<uint64_t>(&value)) {
      if (*number > kMaxCount)
        throw corrupt("values below 2^63 for " + std::string(key), std::to_string(*number));
      return static_cast<int64_t>(*number);
    }
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
    return std::get<int64_t>(value);
  }

  GgufValue skip_nested(std::string_view key, uint64_t count, int depth) {
    if (depth > kMaxNesting) throw corrupt("arrays nested at most 4 deep for " + std::string(key), "more");
    for (uint64_t i = 0; i < count; ++i) read_array(key, depth);
    return GgufNestedArray{};
  }

  void refuse_split() {
    const int64_t parts = out_.integer_or("split.count", 1);
    if (parts > 1) {
      throw unsupported(
          "a GGUF model in one file",
          "one part of " + std::to_string(parts) + " (split.count); join them with llama-gguf-split --merge");
    }
  }

  void read_tensor() {
    StoredTensor tensor;
    tensor.name = std::string(read_text("a tensor name"));
    const auto dimensions = read<uint32_t>(tensor.name);
    if (dimensions > kMaxDimensions) {
      throw corrupt("at most 4 dimensions for " + tensor.name, std::to_string(dimensions));
    }
    for (uint32_t i = 0; i < dimensions; ++i) {
      const auto n = read<uint64_t>(tensor.name);
      if (n > kMaxCount) throw corrupt("dimensions below 2^63 for " + tensor.name, std::to_string(n));
      tensor.shape.push_back(static_cast<int64_t>(n));
    }
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    const auto id = read<uint32_t>(tensor.name);
    const GgmlType* type = find_ggml_type(id);
    if (type == nullptr) throw corrupt("a known tensor type for " + tensor.name, std::to_string(id));
    tensor.type = type->name;
    tensor.ggml_type = id;
    tensor.dtype = type->block_elements == 1 ? dtype_from_name(type->name) : std::nullopt;
    offsets_.push_back(read<uint64_t>(tensor.name));
    sizes_.push_back(tensor_bytes(tensor, *type));
    out_.tensors_.push_back(std::move(tensor));
  }

  uint64_t tensor_bytes(const StoredTensor& tensor, const GgmlType& type) const {
    const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % type.block_elements != 0) {
      throw corrupt("rows of " + tensor.name + " in blocks of " + std::to_string(type.block_elements),
                    std::to_string(row) + " columns");
    }
    uint64_t bytes = static_cast<uint64_t>(type.block_bytes);
    const auto grow = [&](uint64_t n) {
      if (n != 0 && bytes > kMaxCount / n)
        throw corrupt("a shape of " + tensor.name + " that fits memory", to_string(tensor.shape));
      bytes *= n;
    };
    grow(static_cast<uint64_t>(row / type.block_elements));
    for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) grow(static_cast<uint64_t>(tensor.shape[i]));
    return bytes;
  }

  uint64_t alignment() const {
    const int64_t value = out_.integer_or("general.alignment", kDefaultAlignment);
    if (value <= 0 || (value & (value - 1)) != 0 || value > (1 << 20)) {
      throw corrupt("a power of two up to 2^20 for general.alignment", std::to_string(value));
    }
    return static_cast<uint64_t>(value);
  }

  void place_tensors() {
    const uint64_t align = alignment();
    const uint64_t start = std::min<uint64_t>((at_ + align - 1) / align * align, bytes_.size());
    const std::span<const std::byte> data = bytes_.subspan(start);
    for (size_t i = 0; i < offsets_.size(); ++i) {
      StoredTensor& tensor = out_.tensors_[i];
      if (offsets_[i] % align != 0) {
        throw corrupt("an offset of " + tensor.name + " in steps of " + std::to_string(align),
                      std::to_string(offsets_[i]));
      }
      if (offsets_[i] > data.size() || sizes_[i] > data.size() - offsets_[i]) {
        throw corrupt(
            std::to_string(sizes_[i]) + " bytes at " + std::to_string(offsets_[i]) + " for " + tensor.name,
            "a truncated file: its tensors end at " + std::to_string(data.size()));
      }
      tensor.bytes = data.subspan(offsets_[i], sizes_[i]);
    }
    check_names_and_overlap();
  }

  void check_names_and_overlap() const {
    std::vector<const StoredTensor*> order;
    for (const StoredTensor& tensor : out_.tensors_) order.push_back(&tensor);
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->name < b->name; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i]->name == order[i - 1]->name)
        throw corrupt("each tensor name once", "two of " + order[i]->name);
    }
    std::erase_if(order, [](auto* tensor) { return tensor->bytes.empty(); });
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->bytes.data() < b->bytes.data(); });
    for (size_t i = 1; i < order.size(); ++i) {
      const std::span<const std::byte> before = order[i - 1]->bytes;
      if (before.data() + before.size() > order[i]->bytes.data()) {
        throw corrupt("tensors that do not overlap", order[i - 1]->name + " over " + order[i]->name);
      }
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& what_;
  uint64_t at_ = 0;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t> sizes_;
  Gguf out_;
};

Gguf Gguf::parse(std::span<const std::byte> bytes, const std::string& what) {
  return GgufParser(bytes, what).run();
}

}  // namespace penstock::tensor
