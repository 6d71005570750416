#include "models/fixture.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/hash.h"

namespace penstock::models {
namespace {

using base::Json;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

uint64_t element(uint64_t name_hash, uint64_t index) {
  return base::splitmix64(name_hash + index * 0x9e3779b97f4a7c15ULL);
}

template <class T>
void put(std::vector<std::byte>& bytes, T value) {
  const auto at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

void put_float(std::vector<std::byte>& bytes, tensor::DType dtype, float value) {
  if (dtype == tensor::DType::kF16) return put(bytes, tensor::f32_to_f16(value));
  if (dtype == tensor::DType::kBF16) return put(bytes, tensor::f32_to_bf16(value));
  put(bytes, value);
}

void fill_one(tensor::OwnedTensor& tensor, const Json& fill, uint64_t z) {
  const std::string kind = fill["kind"];
  if (kind == "uniform") {
    const float u = static_cast<float>(z >> 40) * 0x1p-23f - 1;
    put_float(tensor.bytes, tensor.dtype, fill["centre"].get<float>() + fill["span"].get<float>() * u);
  } else if (kind == "bits") {
    put(tensor.bytes, static_cast<uint32_t>(z >> 32) & fill["mask"].get<uint32_t>());
  } else {
    put(tensor.bytes,
        static_cast<uint8_t>(fill["first"].get<uint64_t>() + (z >> 32) % fill["count"].get<uint64_t>()));
  }
}

tensor::OwnedTensor make_tensor(const Json& spec) {
  tensor::OwnedTensor tensor;
  tensor.name = spec["name"];
  tensor.dtype = tensor::dtype_from_name(spec["dtype"].get<std::string>()).value();
  tensor.shape = spec["shape"].get<tensor::Shape>();
  uint64_t count = 1;
  for (const int64_t extent : tensor.shape) count *= static_cast<uint64_t>(extent);
  const uint64_t hash = base::fnv1a(tensor.name);
  for (uint64_t i = 0; i < count; ++i) fill_one(tensor, spec["fill"], element(hash, i));
  return tensor;
}

}  // namespace

Fixture::Fixture(const std::filesystem::path& folder) : name_(folder.filename()) {
  config_ = base::parse_python_json(read_file(folder / "config.json"), "config.json");
  expected_ = base::parse_json(read_file(folder / "expected.json"), "expected.json");
  const std::string bin = read_file(folder / "expected.bin");
  rows_.resize(bin.size() / sizeof(float));
  std::memcpy(rows_.data(), bin.data(), rows_.size() * sizeof(float));
  std::vector<tensor::OwnedTensor> tensors;
  for (const Json& spec : base::parse_json(read_file(folder / "tensors.json"), "tensors.json")) {
    tensors.push_back(make_tensor(spec));
  }
  checkpoint_ = tensor::Checkpoint::in_memory(std::move(tensors));
}

std::vector<std::vector<int32_t>> Fixture::prompts() const {
  return expected_["prompts"].get<std::vector<std::vector<int32_t>>>();
}

std::span<const float> Fixture::row(size_t row) const {
  const auto width =
      expected_.contains("width") ? expected_["width"].get<size_t>() : static_cast<size_t>(vocab());
  return std::span(rows_).subspan(row * width, width);
}

ModelFiles Fixture::open(const Json& patch) const {
  Json config = config_;
  config.merge_patch(patch);
  return bind_model(std::move(config), checkpoint_);
}

namespace {

std::vector<std::filesystem::path> folders_of(bool encoders) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(PENSTOCK_SOURCE_DIR "/tests/models")) {
    if (!std::filesystem::exists(entry.path() / "expected.json")) continue;
    const bool has_texts = read_file(entry.path() / "expected.json").find("\"texts\":") != std::string::npos;
    if (has_texts == encoders) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<std::filesystem::path> Fixture::folders() {
  return folders_of(false);
}

std::vector<std::filesystem::path> Fixture::encoder_folders() {
  return folders_of(true);
}

}  // namespace penstock::models
