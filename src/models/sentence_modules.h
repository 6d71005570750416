// What sentence-transformers writes beside config.json: how the tokens of a text become its vector, and how
// many of them count. Loader thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "models/config_reader.h"
#include "models/spec.h"

namespace penstock::models {

/// Of modules.json and the files that it names, as the value of kModulesKey: [{"type": "Pooling", "path":
/// "1_Pooling", "config": {...}}, ...]; null where there is no modules.json. Throws Error(kCorrupt).
base::Json read_module_files(const std::filesystem::path& model);

/// Where that stands in a model's config.
inline constexpr const char* kModulesKey = "sentence_transformers_modules";

/// Folders with weights of their own.
std::vector<std::string> module_folders(const base::Json& modules);

/// Pooling, dense layers, normalising and the length limit of an encoder: the mean where no modules are
/// given. Throws Error(kUnsupported) for modules that are not done here.
void read_sentence_modules(ConfigReader& config, ModelSpec& spec);

/// Of a cross-encoder's score, as its config.json says; sigmoid where it does not.
ops::Dense::Activation score_activation(ConfigReader& config);

}  // namespace penstock::models
