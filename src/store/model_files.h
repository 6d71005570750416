// What a folder or file holds as a model: an MLX directory or one GGUF file, whole or not. Looks at names and
// at the index of shards only; reading weights is the tensor folder's work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::store {

enum class Kind { kMlxDirectory, kGgufFile };

/// "mlx" or "gguf", for lists and JSON.
std::string_view name(Kind kind);

struct Inspection {
  bool complete = false;
  Kind kind = Kind::kMlxDirectory;
  std::vector<std::string> gguf_files;  // relative to the folder, sorted
  std::string problem;                  // what is missing, when not complete
};

/// An MLX directory needs config.json and weights: every shard that model.safetensors.index.json names, or at
/// least one
/// *.safetensors. A folder without them is complete as a GGUF repository when it has a *.gguf.
Inspection inspect_folder(const std::filesystem::path& folder);

/// The GGUF file that `quant` ("Q4_K_M", any case) or a file name picks; with an empty `wanted` the only
/// file, or the first of Q4_K_M, Q4_K_S, Q4_0, Q4_1, Q5_K_M, Q8_0, BF16, F16, F32. Throws Error(kNotFound)
/// listing the choices, and Error(kUnsupported) for a file that is split in parts.
std::string pick_gguf(const std::vector<std::string>& files, std::string_view wanted, std::string_view repo);

/// The files of a repository that make a model, out of all its file names: with `wanted` or without
/// safetensors one GGUF file, otherwise configuration, tokenizer, templates and safetensors. Never *.bin,
/// *.pt or code.
std::vector<std::string> files_to_fetch(const std::vector<std::string>& files, std::string_view wanted,
                                        std::string_view repo);

}  // namespace penstock::store
