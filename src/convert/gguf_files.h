// The files of a model folder that a GGUF file's metadata amounts to. Loader thread.
#pragma once

#include <vector>

#include "convert/destination.h"
#include "models/model_files.h"

namespace penstock::convert {

/// config.json without its quantization. It is read back and must give the model that the GGUF file is;
/// throws Error(kUnsupported) where it does not.
base::Json gguf_model_config(const models::ModelFiles& files);

/// tokenizer.json, tokenizer_config.json and generation_config.json.
std::vector<SideFile> gguf_side_files(const tensor::Gguf& gguf);

}  // namespace penstock::convert
