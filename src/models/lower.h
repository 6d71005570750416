// Lowering: a ModelSpec becomes a Plan. The one place that knows the order of operations: of a decoder
// lower.cpp, of an encoder lower_encoder.cpp.
#pragma once

#include "models/plan.h"
#include "models/spec.h"

namespace penstock::models {

Plan lower(const ModelSpec& spec);

/// Of a spec with an encoder.
Plan lower_encoder(const ModelSpec& spec);

}  // namespace penstock::models
