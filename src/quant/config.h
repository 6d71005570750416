// The quantization part of a model's config.json: which parameters each module has. Plain data, any thread.
// Whether a module is quantised at all is decided by its tensors, not here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace penstock::quant {

struct Params {
  std::string mode = "affine";  // "affine", "mxfp4", "mxfp8", "nvfp4"
  int group_size = 64;
  int bits = 4;

  bool operator==(const Params&) const = default;
};

struct Config {
  std::optional<Params> base;  // empty: the model says nothing of quantisation
  std::map<std::string, std::optional<Params>>
      overrides;  // by module path; empty value: kept in floating point

  /// Reads `quantization`, else `quantization_config`, of config.json or of its text_config.
  /// Throws Error: kUnsupported for gptq, awq and other foreign methods, kInvalidRequest for values out of
  /// range.
  static Config parse(const base::Json& config);

  /// What the config says of the module at `path` ("model.layers.0.mlp.up_proj") alone, with or without a
  /// leading "language_model." on either side. Outer empty: nothing; inner empty: keep floating point.
  std::optional<std::optional<Params>> find_override(std::string_view path) const;
};

}  // namespace penstock::quant
