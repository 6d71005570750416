#include "quant/config.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/log.h"

namespace penstock::quant {
namespace {

using base::Code;
using base::Error;
using base::Json;

constexpr std::array<std::string_view, 2> kOwnMethods = {"affine", "mlx"};

Error invalid(const std::string& expected, const std::string& got) {
  return Error(Code::kInvalidRequest, "[quant.config] expected " + expected + "; got " + got);
}

Params defaults(const std::string& mode, const std::string& where) {
  if (mode == "affine") return {mode, 64, 4};
  if (mode == "mxfp4") return {mode, 32, 4};
  if (mode == "mxfp8") return {mode, 32, 8};
  if (mode == "nvfp4") return {mode, 16, 4};
  throw Error(Code::kUnsupported,
              "[quant.config] expected mode affine, mxfp4, mxfp8 or nvfp4 in " + where + "; got " + mode);
}

int integer(const Json& object, const char* key, int otherwise, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return otherwise;
  if (!found->is_number_integer())
    throw invalid("an integer " + std::string(key) + " in " + where, found->dump());
  const auto value = found->get<int64_t>();
  if (value < 1 || value > 1024) throw invalid(std::string(key) + " in 1..1024 in " + where, found->dump());
  return static_cast<int>(value);
}

Params read_params(const Json& object, const std::string& where) {
  std::string mode = "affine";
  if (const auto found = object.find("mode"); found != object.end() && !found->is_null()) {
    if (!found->is_string()) throw invalid("a text as mode in " + where, found->dump());
    mode = found->get<std::string>();
  }
  const Params usual = defaults(mode, where);
  Params params = usual;
  params.group_size = integer(object, "group_size", usual.group_size, where);
  params.bits = integer(object, "bits", usual.bits, where);
  const int g = params.group_size;
  const int b = params.bits;
  const bool good =
      mode == "affine" ? (g == 32 || g == 64 || g == 128) && b >= 2 && b <= 8 && b != 7 : params == usual;
  if (!good) {
    throw Error(Code::kUnsupported, "[quant.config] expected a group size and bits that " + mode +
                                        " has in " + where + "; got " + std::to_string(g) + " and " +
                                        std::to_string(b));
  }
  return params;
}

/// The object that speaks of quantisation, or null.
const Json* find_section(const Json& config) {
  for (const char* key : {"quantization", "quantization_config"}) {
    for (const char* level : {"", "text_config"}) {
      const Json* at = &config;
      if (*level) {
        const auto inner = config.find(level);
        if (inner == config.end() || !inner->is_object()) continue;
        at = &*inner;
      }
      const auto found = at->find(key);
      if (found != at->end() && !found->is_null()) return &*found;
    }
  }
  return nullptr;
}

/// quant_method of a section that some other tool wrote; empty when there is none.
std::string foreign_method(const Json& section) {
  const auto found = section.find("quant_method");
  if (found == section.end() || found->is_null()) return "";
  const std::string method = found->is_string() ? found->get<std::string>() : found->dump();
  return std::find(kOwnMethods.begin(), kOwnMethods.end(), method) == kOwnMethods.end() ? method : "";
}

void read_entry(const std::string& key, const Json& value, Config& out) {
  if (key == "group_size" || key == "bits" || key == "mode" || key == "quant_method") return;
  if (key == "quantize_activations") {
    if (value.is_boolean() && !value.get<bool>()) return;
    throw Error(Code::kUnsupported,
                "[quant.config] expected weights alone to be quantised; got quantize_activations");
  }
  if (value.is_object()) {
    out.overrides[key] = read_params(value, "the quantization of " + key);
  } else if (value.is_boolean()) {
    out.overrides[key] = value.get<bool>() ? out.base : std::nullopt;
  } else {
    base::log::warn("config.json: the quantization entry {} is not understood and has no effect", key);
  }
}

/// Vision-language checkpoints put "language_model." before, or after, the "model." of the text model.
std::string text_path(std::string_view path) {
  constexpr std::string_view kWrapper = "language_model.";
  constexpr std::string_view kInner = "model.language_model.";
  if (path.starts_with(kWrapper)) return std::string(path.substr(kWrapper.size()));
  if (path.starts_with(kInner)) return "model." + std::string(path.substr(kInner.size()));
  return std::string(path);
}

}  // namespace

Config Config::parse(const Json& config) {
  Config out;
  const Json* section = config.is_object() ? find_section(config) : nullptr;
  if (section == nullptr) return out;
  if (!section->is_object()) throw invalid("an object as quantization in config.json", section->dump());
  const std::string method = foreign_method(*section);
  if (method == "mxfp4" || method == "mxfp8") {
    out.base = defaults(method, "config.json");
    return out;
  }
  if (!method.empty()) {
    throw Error(Code::kUnsupported,
                "[quant.config] expected weights quantised by MLX or not at all; got quant_method " + method +
                    ", which is not supported");
  }
  out.base = read_params(*section, "the quantization of config.json");
  for (const auto& [key, value] : section->items()) read_entry(key, value, out);
  return out;
}

std::optional<std::optional<Params>> Config::find_override(std::string_view path) const {
  const auto exact = overrides.find(std::string(path));
  if (exact != overrides.end()) return exact->second;
  const std::string plain = text_path(path);
  for (const auto& [key, params] : overrides) {
    if (text_path(key) == plain) return params;
  }
  return std::nullopt;
}

}  // namespace penstock::quant
