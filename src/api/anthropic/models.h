// Models in Anthropic's shape. Pure functions.
#pragma once

#include <vector>

#include "base/json.h"
#include "serve/service.h"

namespace penstock::api::anthropic {

/// The context's length is null before the model was loaded once.
base::Json model_json(const serve::ModelCard& card);

/// All of them as one page.
base::Json models_json(const std::vector<serve::ModelCard>& cards);

}  // namespace penstock::api::anthropic
