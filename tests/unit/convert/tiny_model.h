// Small models of a llama shape as folders, and comparisons of their values. Test code only.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/json.h"
#include "models/model_files.h"
#include "quant/format.h"
#include "tensor/checkpoint.h"
#include "tensor/safetensors.h"

namespace penstock::convert {

struct Shape {
  int64_t hidden = 256, width = 128, layers = 2, vocab = 24;
};

inline base::Json tiny_config(const Shape& shape) {
  return {{"model_type", "llama"},
          {"hidden_size", shape.hidden},
          {"intermediate_size", shape.width},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 128},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", true},
          {"vocab_size", shape.vocab}};
}

inline tensor::OwnedTensor random_tensor(const std::string& name, tensor::DType dtype, tensor::Shape shape) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  tensor::OwnedTensor out{name, dtype, std::move(shape), {}};
  std::vector<float> values(static_cast<size_t>(count));
  const uint64_t seed = base::fnv1a(name);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(base::splitmix64(seed + i) >> 40) * 0x1p-24f - 0.5f;
  out.bytes.resize(values.size() * tensor::size_bytes(dtype));
  tensor::write_f32(values, dtype, out.bytes.data());
  return out;
}

/// The tensors that tiny_config() asks for.
inline std::vector<tensor::OwnedTensor> tiny_tensors(const Shape& shape, tensor::DType dtype) {
  std::vector<tensor::OwnedTensor> out;
  const auto add = [&](const std::string& name, tensor::Shape dims) {
    out.push_back(random_tensor(name, dtype, std::move(dims)));
  };
  add("model.embed_tokens.weight", {shape.vocab, shape.hidden});
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "self_attn.q_proj.weight", {shape.hidden, shape.hidden});
    add(layer + "self_attn.k_proj.weight", {shape.hidden / 2, shape.hidden});
    add(layer + "self_attn.v_proj.weight", {shape.hidden / 2, shape.hidden});
    add(layer + "self_attn.o_proj.weight", {shape.hidden, shape.hidden});
    add(layer + "mlp.gate_proj.weight", {shape.width, shape.hidden});
    add(layer + "mlp.up_proj.weight", {shape.width, shape.hidden});
    add(layer + "mlp.down_proj.weight", {shape.hidden, shape.width});
    add(layer + "input_layernorm.weight", {shape.hidden});
    add(layer + "post_attention_layernorm.weight", {shape.hidden});
  }
  add("model.norm.weight", {shape.hidden});
  return out;
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline void write_model(const std::filesystem::path& folder, const base::Json& config,
                        const std::vector<tensor::OwnedTensor>& tensors) {
  std::filesystem::create_directories(folder);
  std::vector<tensor::NamedView> views;
  for (const auto& t : tensors) views.push_back({t.name, {t.dtype, t.shape, t.bytes}});
  tensor::write_safetensors(folder / "model.safetensors", views);
  write_text(folder / "config.json", config.dump());
  write_text(folder / "tokenizer_config.json", R"({"chat_template": "x"})");
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Every file of a folder with its content, by name.
inline std::map<std::string, std::string> read_folder(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) out[entry.path().filename().string()] = read_bytes(entry.path());
  }
  return out;
}

/// Row by row, bit by bit.
inline void expect_same_values(const models::ModelFiles& a, const models::ModelFiles& b) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t i = 0; i < a.weights.size(); ++i) {
    const quant::Matrix& x = a.weights[i];
    const quant::Matrix& y = b.weights[i];
    ASSERT_EQ(x.rows, y.rows);
    std::vector<float> left(static_cast<size_t>(x.cols)), right(left.size());
    for (int64_t r = 0; r < x.rows; ++r) {
      x.format->dequantize(x, r, left);
      y.format->dequantize(y, r, right);
      ASSERT_EQ(left, right) << a.plan.weights[i].name << " row " << r;
    }
  }
}

}  // namespace penstock::convert
