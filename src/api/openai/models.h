// Models in OpenAI's shape. Pure functions.
#pragma once

#include <vector>

#include "base/json.h"
#include "serve/service.h"

namespace penstock::api::openai {

/// What is not known before a model was loaded once is null.
base::Json model_json(const serve::ModelCard& card);

base::Json models_json(const std::vector<serve::ModelCard>& cards);

}  // namespace penstock::api::openai
