// Safetensors: header and table, then the claim of a model on its tensors. The model's config.json is the
// file's metadata "config", so that both change together.
#include <map>
#include <span>

#include "base/hash.h"
#include "base/json.h"
#include "fuzz/scratch_file.h"
#include "fuzz/target.h"
#include "fuzz/use_model.h"
#include "models/model_files.h"
#include "tensor/safetensors.h"

namespace penstock::fuzz {
namespace {

using tensor::TableEntry;

/// Kinds of storage of a matrix: name of the type, bits of a code, columns of a scale, type of a scale.
struct Storage {
  const char* mode;
  int bits, group;
  const char* scale_type;
  bool has_biases;
};

class FileOf {
 public:
  void add(const std::string& name, const char* type, int64_t element_bytes, tensor::Shape shape) {
    uint64_t bytes = static_cast<uint64_t>(element_bytes);
    for (const int64_t n : shape) bytes *= static_cast<uint64_t>(n);
    entries_.push_back({name, type, std::move(shape), bytes});
    size_ += bytes;
  }

  void matrix(const std::string& base, int64_t rows, int64_t cols, const Storage* storage) {
    if (storage == nullptr) return add(base + ".weight", "BF16", 2, {rows, cols});
    add(base + ".weight", "U32", 4, {rows, cols * storage->bits / 32});
    const int64_t scale_bytes = storage->has_biases ? 2 : 1;
    add(base + ".scales", storage->scale_type, scale_bytes, {rows, cols / storage->group});
    if (storage->has_biases) add(base + ".biases", storage->scale_type, 2, {rows, cols / storage->group});
  }

  std::string finish(const base::Json& config) const {
    const std::map<std::string, std::string> metadata = {{"format", "mlx"}, {"config", config.dump()}};
    std::string file = tensor::safetensors_head(entries_, metadata);
    for (uint64_t i = 0; i < size_; ++i) file += static_cast<char>(base::splitmix64(i) & 0x3b);
    return file;
  }

 private:
  std::vector<TableEntry> entries_;
  uint64_t size_ = 0;
};

std::string model(const std::string& type, const Storage* storage) {
  const int64_t width = storage == nullptr ? 8 : 32;
  base::Json config = {{"model_type", type},       {"vocab_size", 5},
                       {"hidden_size", width},     {"num_hidden_layers", 1},
                       {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                       {"head_dim", width / 2},    {"intermediate_size", width},
                       {"rms_norm_eps", 1e-5},     {"max_position_embeddings", 64},
                       {"rope_theta", 10000.0},    {"tie_word_embeddings", true}};
  if (storage != nullptr) {
    config["quantization"] = {
        {"group_size", storage->group}, {"bits", storage->bits}, {"mode", storage->mode}};
  }
  FileOf file;
  file.matrix("model.embed_tokens", 5, width, storage);
  const std::string layer = "model.layers.0.";
  for (const char* name :
       {"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
    file.matrix(layer + name, width, width, storage);
  for (const char* name : {"self_attn.k_proj", "self_attn.v_proj"})
    file.matrix(layer + name, width / 2, width, storage);
  for (const char* name : {"input_layernorm", "post_attention_layernorm"})
    file.add(layer + name + ".weight", "F32", 4, {width});
  if (type == "qwen3") {
    for (const char* name : {"self_attn.q_norm", "self_attn.k_norm"})
      file.add(layer + name + ".weight", "F16", 2, {width / 2});
  }
  file.add("model.norm.weight", "F32", 4, {width});
  return file.finish(config);
}

void use_model(const tensor::SafetensorsTable& table, std::string_view file) {
  const auto config = table.metadata.find("config");
  if (config == table.metadata.end()) return;
  base::Json json = base::parse_python_json(config->second, "config");
  static ScratchFile scratch(".safetensors");
  scratch.write(file);
  use_weights(models::bind_model(std::move(json), tensor::Checkpoint::open(scratch.path())));
}

void check_table(const tensor::SafetensorsTable& table, std::string_view file) {
  size_t sum = 0;
  uint64_t hash = 0;
  for (const tensor::StoredTensor& tensor : table.tensors) {
    const auto* begin = reinterpret_cast<const char*>(tensor.bytes.data());
    expect(begin >= file.data() && begin + tensor.bytes.size() <= file.data() + file.size(),
           "a tensor outside the file");
    hash ^= base::fnv1a({begin, tensor.bytes.size()});
    sum += tensor.bytes.size();
  }
  expect(sum + 8 <= file.size() && hash != 1, "tensors that overlap");
}

}  // namespace

std::vector<std::string> seeds() {
  const Storage affine4{"affine", 4, 32, "BF16", true}, affine2{"affine", 2, 32, "F16", true},
      mxfp4{"mxfp4", 4, 32, "U8", false}, mxfp8{"mxfp8", 8, 32, "U8", false},
      nvfp4{"nvfp4", 4, 16, "U8", false};
  return {model("llama", nullptr),  model("qwen3", nullptr), model("llama", &affine4),
          model("qwen3", &affine2), model("llama", &mxfp4),  model("llama", &mxfp8),
          model("llama", &nvfp4)};
}

std::vector<std::string> words() {
  return {"\"F32\"",
          "\"F8_E5M2\"",
          "\"BOOL\"",
          "\"I64\"",
          "data_offsets",
          "__metadata__",
          "\\\"bits\\\"",
          "group_size",
          "quantization",
          "null",
          "18446744073709551615",
          "9223372036854775807",
          "-1",
          "1e308",
          "rope_scaling",
          "sliding_window",
          "layer_types",
          "gemma3_text",
          "[]",
          "{}",
          "\\u0000",
          "lm_head.weight",
          "model.layers.1.",
          "attention_bias"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const fuzz::Exact input(data, size);
  const std::string_view file = input.text();
  fuzz::refusable([&] {
    const auto table = tensor::parse_safetensors(std::as_bytes(std::span(file)), "m");
    fuzz::check_table(table, file);
    fuzz::use_model(table, file);
  });
  return 0;
}
