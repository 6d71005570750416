// Turns a model into an MLX directory, tensor by tensor: memory stays below what the largest tensor takes.
// The calling thread and `threads - 1` more while a tensor is made.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "convert/layout.h"
#include "convert/recipe.h"
#include "models/model_files.h"

namespace penstock::convert {

struct Options {
  Wish wish;
  bool force = false;  // replace a finished model
  int threads = 1;
  uint64_t shard_bytes = kShardBytes;
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(uint64_t done_bytes, uint64_t total_bytes, const std::string& name)> on_progress;
  std::function<void(const std::string& note)> on_note;
};

/// How many modules and tensors went the same way.
struct Tally {
  std::string from, to;
  Effect effect = Effect::kUnchanged;
  int64_t count = 0;
};

struct Summary {
  std::filesystem::path path;
  std::vector<Tally> tallies;
  std::vector<std::pair<std::string, uint64_t>> files;  // weight files and their bytes
  uint64_t size_bytes = 0;                              // of these
  base::Json quantization;
  bool resumed = false;
};

/// "unchanged", "without loss", "rounded", "quantized", "quantized again".
std::string_view describe(Effect effect);

/// Throws Error: kInvalidRequest for a destination or wish that is refused, kIo for the disk, kCancelled when
/// the flag was set (the same call goes on later).
Summary convert(const models::ModelFiles& files, const std::filesystem::path& destination,
                const Options& options);

}  // namespace penstock::convert
