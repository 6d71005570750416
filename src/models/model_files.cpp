#include "models/model_files.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "models/family.h"
#include "models/gguf.h"
#include "models/lower.h"
#include "models/sentence_modules.h"
#include "quant/config.h"
#include "quant/format.h"
#include "quant/load.h"
#include "tensor/weights.h"

namespace penstock::models {
namespace {

using base::Code;
using base::Error;
using quant::Matrix;

/// Binds the weights of a safetensors checkpoint by their own names.
class SafetensorsBinder {
 public:
  SafetensorsBinder(const base::Json& config, const std::shared_ptr<const tensor::Checkpoint>& checkpoint)
      : quantization_(quant::Config::parse(config)), weights_(checkpoint) {
    // A wrapper of several modalities keeps the decoder below "language_model."; its towers are not read
    // here.
    if (!weights_.has("model.embed_tokens.weight") &&
        weights_.has("language_model.model.embed_tokens.weight")) {
      prefix_ = "language_model.";
      weights_.ignore("vision_tower.*");
      weights_.ignore("multi_modal_projector.*");
    }
    weights_.ignore("*rotary_emb.inv_freq");
    // Of BERT: numbers from 0 on, and the heads of what it was trained for.
    weights_.ignore("*embeddings.position_ids");
    weights_.ignore("cls.*");
  }

  Matrix bind(const WeightSpec& spec) {
    if (!spec.vector)
      return quant::load_matrix(weights_, prefix_ + spec.name, spec.rows, spec.cols, quantization_);
    return quant::load_vector(weights_, prefix_ + spec.name, spec.cols);
  }

  void finish(const ModelSpec& spec) {
    if (spec.tied_head) weights_.ignore(prefix_ + "lm_head.*");
    if (spec.encoder && spec.encoder->task == Task::kEmbed)
      weights_.ignore(spec.encoder->prefix + "pooler.*");
    weights_.finish();
  }

 private:
  quant::Config quantization_;
  tensor::Weights weights_;
  std::string prefix_;
};

class GgufBinder {
 public:
  GgufBinder(const ModelSpec& spec, const std::shared_ptr<const tensor::Checkpoint>& checkpoint)
      : spec_(spec), interleaved_(gguf_interleaves_rope(*checkpoint->gguf())), weights_(checkpoint) {}

  Matrix bind(const WeightSpec& spec) {
    const bool sandwich = !spec_.norms.attention_post.empty();
    Matrix matrix;
    if (spec.vector) {
      matrix = quant::load_vector(weights_, gguf_tensor_name(spec.name, sandwich), spec.cols);
    } else {
      const std::string name = gguf_tensor_name(spec.name + ".weight", sandwich);
      matrix = quant::load_gguf_matrix(weights_, name, spec.rows, spec.cols);
    }
    const bool turned =
        spec.name.find(".q_proj") != std::string::npos || spec.name.find(".k_proj") != std::string::npos;
    if (interleaved_ && turned && !spec.vector) {
      matrix.row_order = quant::undo_rope_interleave(spec.rows, spec_.layers.front().attention.head_dim);
    }
    return matrix;
  }

  void finish(const ModelSpec& spec) {
    if (spec.tied_head) weights_.ignore("output.weight");
    weights_.ignore("rope_freqs.weight");  // already in the spec's ropes
    weights_.finish();
  }

 private:
  const ModelSpec& spec_;
  bool interleaved_;
  tensor::Weights weights_;
};

std::string describe_format(const ops::WeightTable& weights) {
  std::map<std::string, size_t> bytes;
  for (const Matrix& matrix : weights) {
    std::string name(matrix.format->name());
    if (name == "affine")
      name += " " + std::to_string(matrix.bits) + "-bit group " + std::to_string(matrix.group_size);
    bytes[name] += matrix.format->row_bytes(matrix) * static_cast<size_t>(matrix.rows);
  }
  const auto most =
      std::max_element(bytes.begin(), bytes.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return most->first;
}

/// GGUF llama files carry the divisors of llama3 rope scaling as a tensor, gemma files carry norms plus one,
/// and whether the head is tied shows in the tensors alone.
void apply_gguf_facts(ModelSpec& spec, const tensor::Checkpoint& checkpoint, tensor::Weights& weights) {
  spec.tied_head = checkpoint.find("output.weight") == nullptr;
  spec.norm_offset = 0;
  const bool qkv_bias = checkpoint.find("blk.0.attn_q.bias") != nullptr;
  const bool o_bias = checkpoint.find("blk.0.attn_output.bias") != nullptr;
  for (LayerSpec& layer : spec.layers) {
    layer.attention.qkv_bias = qkv_bias;
    layer.attention.o_bias = o_bias;
  }
  if (checkpoint.find("rope_freqs.weight") == nullptr) return;
  ops::Rope& rope = spec.ropes.front();
  const auto divisors = tensor::to_f32(weights.take("rope_freqs.weight", {rope.dims / 2}));
  for (size_t i = 0; i < divisors.size(); ++i) rope.inv_freq[i] /= divisors[i];
}

/// A BERT below a head of some task has its name in front of its tensors.
void apply_encoder_facts(EncoderSpec& encoder, const tensor::Checkpoint& checkpoint) {
  if (checkpoint.find("bert.embeddings.LayerNorm.weight") == nullptr) return;
  encoder.prefix = "bert.";
  for (DenseSpec& dense : encoder.dense)
    if (dense.name.starts_with("pooler.")) dense.name = encoder.prefix + dense.name;
}

template <class Binder>
void bind_all(ModelFiles& files, Binder binder) {
  for (const WeightSpec& spec : files.plan.weights) files.weights.push_back(binder.bind(spec));
  binder.finish(files.spec);
  files.format = describe_format(files.weights);
}

base::Json read_json(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Code::kNotFound, "[models.open] expected " + path.string() + "; got no such file");
  std::stringstream text;
  text << in.rdbuf();
  return base::parse_python_json(text.str(), path.string());
}

ModelFiles bind_spec(ModelSpec spec, base::Json config,
                     std::shared_ptr<const tensor::Checkpoint> checkpoint) {
  ModelFiles files;
  files.config = std::move(config);
  files.checkpoint = std::move(checkpoint);
  files.spec = std::move(spec);
  if (files.checkpoint->gguf() == nullptr) {
    if (files.spec.encoder) apply_encoder_facts(*files.spec.encoder, *files.checkpoint);
    files.plan = lower(files.spec);
    bind_all(files, SafetensorsBinder(files.config, files.checkpoint));
  } else {
    tensor::Weights weights(files.checkpoint);
    apply_gguf_facts(files.spec, *files.checkpoint, weights);
    files.plan = lower(files.spec);
    bind_all(files, GgufBinder(files.spec, files.checkpoint));
  }
  return files;
}

}  // namespace

ModelFiles bind_model(base::Json config, std::shared_ptr<const tensor::Checkpoint> checkpoint) {
  ModelSpec spec = read_spec(config);
  return bind_spec(std::move(spec), std::move(config), std::move(checkpoint));
}

ModelFiles open_model(const std::filesystem::path& path) {
  const auto config_path = path / "config.json";
  const bool has_config = std::filesystem::is_directory(path) && std::filesystem::exists(config_path);
  base::Json config;
  std::optional<ModelSpec> spec;
  if (has_config) {
    config = read_json(config_path);
    if (base::Json modules = read_module_files(path); !modules.is_null())
      config[kModulesKey] = std::move(modules);
    spec = read_spec(config);  // before the weights: an unknown model_type is the clearer error
  }
  const auto modules = config.find(kModulesKey);
  const auto folders = modules == config.end() ? std::vector<std::string>() : module_folders(*modules);
  auto checkpoint = tensor::Checkpoint::open(path, folders);
  if (checkpoint->gguf() != nullptr) {
    config = gguf_config(*checkpoint->gguf());
    spec = read_spec(config);
  }
  if (!spec)
    throw Error(Code::kNotFound, "[models.open] expected config.json in " + path.string() + "; got none");
  ModelFiles files = bind_spec(std::move(*spec), std::move(config), std::move(checkpoint));
  files.path = path;
  return files;
}

}  // namespace penstock::models
