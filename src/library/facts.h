// What the files of a model say of it without loading it. Slow (it opens them): for workers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace penstock::library {

struct Facts {
  std::string container;  // "gguf", "safetensors"; empty: there are no files
  uint64_t size_bytes = 0;
  std::string sha256;       // of the weights, as far as they lie under their digest; else empty
  int64_t modified_ms = 0;  // of the newest file
  std::string family, quantisation;
  int64_t parameters = 0;
  int32_t context_length = 0;
  std::string chat_template;  // empty: none
  bool calls_tools = false, has_reasoning = false;
  std::string licence;
  base::Json info = base::Json::object();  // "general.architecture", "llama.context_length", ...
  std::string problem;                     // why the files are no model; the rest is then what is known
};

/// The digest of weights in several files: the digest of their digests; of one, its own.
std::string joined_digest(const std::vector<std::string>& digests);

/// `path`: a model directory or a .gguf file. Throws nothing that its files cause: see `problem`.
Facts read_facts(const std::filesystem::path& path);

}  // namespace penstock::library
