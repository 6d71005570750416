#include "models/sentence_modules.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace penstock::models {
namespace {

using base::Code;
using base::Error;
using base::Json;
using Activation = ops::Dense::Activation;
namespace fs = std::filesystem;

Json read_if_there(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return nullptr;
  std::stringstream text;
  text << in.rdbuf();
  return base::parse_python_json(text.str(), path.string());
}

/// "sentence_transformers.models.Pooling" is "Pooling": the packages around the class have changed.
std::string class_of(const std::string& dotted) {
  return dotted.substr(dotted.rfind('.') + 1);
}

/// One folder below the model's.
std::string folder_of(const Json& module) {
  const std::string path = module.value("path", "");
  if (path.find_first_of("/\\") != std::string::npos || path == "." || path == "..") {
    throw Error(Code::kCorrupt,
                "[models.modules] expected folders of the model as paths of modules.json; got " + path);
  }
  return path;
}

ops::Pooling read_pooling(const Json& config) {
  std::vector<std::string> modes;
  if (config.contains("pooling_mode") && config["pooling_mode"].is_string())
    modes.push_back(config["pooling_mode"].get<std::string>());
  constexpr std::string_view kMode = "pooling_mode_";
  for (const auto& [key, value] : config.items())
    if (key.starts_with(kMode) && value == true) modes.push_back(key.substr(kMode.size()));
  if (modes.size() == 1) {
    if (modes[0] == "mean_tokens" || modes[0] == "mean") return ops::Pooling::kMean;
    if (modes[0] == "cls_token" || modes[0] == "cls") return ops::Pooling::kFirst;
    if (modes[0] == "lasttoken") return ops::Pooling::kLast;
  }
  throw Error(Code::kUnsupported,
              "[models.modules] expected one of mean_tokens, cls_token and lasttoken as "
              "the pooling mode; got " +
                  config.dump());
}

Activation read_activation(const std::string& name) {
  const std::string type = class_of(name);
  if (type == "Identity") return Activation::kNone;
  if (type == "Tanh") return Activation::kTanh;
  if (type == "Sigmoid") return Activation::kSigmoid;
  throw Error(Code::kUnsupported,
              "[models.modules] expected Identity, Tanh or Sigmoid as the activation; got " + name);
}

DenseSpec read_dense(const std::string& folder, ConfigReader config, int64_t width) {
  if (const int64_t in = config.positive("in_features"); in != width) {
    throw Error(Code::kCorrupt, "[models.modules] expected in_features " + std::to_string(width) + " in " +
                                    folder + "; got " + std::to_string(in));
  }
  DenseSpec dense;
  dense.name = folder + "/linear";
  dense.width = config.positive("out_features");
  dense.bias = config.flag_or("bias", true);
  dense.activation = read_activation(config.text_or("activation_function", "torch.nn.Tanh"));
  return dense;
}

/// The first module: nothing of it but the length that the authors allow.
void read_transformer(ConfigReader config, ModelSpec& spec) {
  const int64_t tokens = config.positive_or("max_seq_length", spec.max_position);
  spec.max_position = static_cast<int32_t>(std::min<int64_t>(tokens, spec.max_position));
}

}  // namespace

Json read_module_files(const fs::path& model) {
  const Json listed = read_if_there(model / "modules.json");
  if (listed.is_null()) return nullptr;
  if (!listed.is_array())
    throw Error(Code::kCorrupt, "[models.modules] expected a list in modules.json; got " + listed.dump());
  Json modules = Json::array();
  for (const Json& module : listed) {
    if (!module.is_object() || !module.contains("type") || !module["type"].is_string())
      throw Error(Code::kCorrupt, "[models.modules] expected modules with a type; got " + module.dump());
    const std::string type = class_of(module["type"].get<std::string>()), folder = folder_of(module);
    const fs::path file =
        type == "Transformer" ? model / folder / "sentence_bert_config.json" : model / folder / "config.json";
    Json config = read_if_there(file);
    if (!config.is_object()) config = Json::object();
    modules.push_back({{"type", type}, {"path", folder}, {"config", std::move(config)}});
  }
  return modules;
}

std::vector<std::string> module_folders(const Json& modules) {
  std::vector<std::string> folders;
  if (!modules.is_array()) return folders;
  for (const Json& module : modules)
    if (module.value("type", "") == "Dense") folders.push_back(module.value("path", ""));
  return folders;
}

void read_sentence_modules(ConfigReader& config, ModelSpec& spec) {
  const Json* modules = config.find(kModulesKey);
  if (modules == nullptr) return;
  EncoderSpec& encoder = *spec.encoder;
  int64_t width = spec.hidden;
  bool is_pooled = false;
  for (const Json& module : *modules) {
    const std::string type = module.value("type", "");
    const Json& own = module.at("config");
    if (type == "Transformer" && !is_pooled) {
      read_transformer(ConfigReader(own), spec);
    } else if (type == "Pooling" && !is_pooled) {
      encoder.pooling = read_pooling(own);
      is_pooled = true;
    } else if (type == "Dense" && is_pooled && !encoder.unit) {
      encoder.dense.push_back(read_dense(module.value("path", ""), ConfigReader(own), width));
      width = encoder.dense.back().width;
    } else if (type == "Normalize" && is_pooled) {
      encoder.unit = true;
    } else {
      throw Error(Code::kUnsupported,
                  "[models.modules] expected the modules Transformer, Pooling, Dense and Normalize in this "
                  "order; got " +
                      type);
    }
  }
}

Activation score_activation(ConfigReader& config) {
  std::string name = config.text_or("sbert_ce_default_activation_function", "torch.nn.Sigmoid");
  const Json* own = config.find("sentence_transformers");
  if (own != nullptr && own->is_object() && own->contains("activation_fn"))
    name = own->at("activation_fn").get<std::string>();
  return read_activation(name);
}

}  // namespace penstock::models
