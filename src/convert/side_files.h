// Everything of a model's folder but the weights: config.json, tokenizer, template, generation settings.
// Loader thread.
#pragma once

#include <vector>

#include "convert/destination.h"
#include "convert/recipe.h"
#include "models/model_files.h"

namespace penstock::convert {

/// The new config.json. Of a GGUF file: what mlx-lm and transformers need to read the same model; throws
/// Error(kUnsupported) where no config.json says the same.
base::Json make_config(const models::ModelFiles& files, const Recipe& recipe);

/// The other files. Of a folder: copies; of a GGUF file: made from its metadata.
std::vector<SideFile> make_side_files(const models::ModelFiles& files);

}  // namespace penstock::convert
