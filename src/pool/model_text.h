// The text side of a model's files: tokenizer, chat template, the ids that end a turn, and sampling defaults.
// Read from a model directory or from a GGUF file. Loader thread; the results are immutable.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "pool/model.h"
#include "tensor/gguf.h"
#include "text/codec.h"
#include "text/tokenizer.h"

namespace penstock::pool {

struct ModelText {
  std::shared_ptr<text::Codec> codec;
  std::vector<int32_t> stop_ids;
  GenerationDefaults defaults;
  std::string template_origin;        // the file that the chat template came from, empty without one
  std::vector<std::string> warnings;  // ids of config files that were ignored, and why
};

/// From tokenizer.json, tokenizer_config.json, generation_config.json and template files of a directory.
/// `config` is its config.json. Throws Error(kNotFound) naming tokenizer.json when it is not there.
ModelText read_model_text(const std::filesystem::path& directory, const base::Json& config);

/// From the metadata of a GGUF file.
ModelText read_model_text(const tensor::Gguf& gguf);

/// The chat template of a model directory, without its tokenizer; empty without one. Throws what
/// text::choose_template throws.
std::string chat_template_of(const std::filesystem::path& directory);

/// The vocabulary metadata of a GGUF file.
text::GgufVocab gguf_vocab(const tensor::Gguf& gguf);

}  // namespace penstock::pool
