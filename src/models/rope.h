// Rotary embedding settings of config.json, in both spellings (rope_scaling with rope_theta;
// rope_parameters), reduced to inverse frequencies.
#pragma once

#include <string>

#include "base/json.h"
#include "ops/operation.h"

namespace penstock::models {

/// What a scaling type needs besides its own parameters.
struct RopeContext {
  int32_t dims = 0;
  double theta = 10000;      // used where `parameters` has no rope_theta
  int32_t max_position = 0;  // tokens
};

/// `parameters` is the value of rope_scaling or rope_parameters; null means plain rope. Types: default,
/// linear, llama3, yarn. Throws Error(kUnsupported) for another type, kInvalidRequest for missing or wrong
/// parameters.
ops::Rope make_rope(const base::Json& parameters, const RopeContext& context);

}  // namespace penstock::models
