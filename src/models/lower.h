// Lowering: a ModelSpec becomes a Plan. The one place that knows the order of operations of a decoder.
#pragma once

#include "models/plan.h"
#include "models/spec.h"

namespace penstock::models {

Plan lower(const ModelSpec& spec);

}  // namespace penstock::models
