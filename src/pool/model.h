// A model that is ready to serve: its names, its codec, its generator or encoder and its defaults.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/encoder.h"
#include "engine/generator.h"
#include "pool/generation_defaults.h"
#include "text/codec.h"
#include "text/control_guard.h"
#include "tier/block_file.h"

namespace penstock::pool {

/// Bytes of a loaded model. Those of a device with memory of its own are not in the measured ones.
struct ModelMemory {
  uint64_t weight_bytes = 0, cache_bytes = 0, buffer_bytes = 0;  // planned; buffers: of steps and slots
  std::optional<uint64_t> measured_resident_bytes;               // what the process grew by while it loaded
  std::optional<uint64_t> measured_allocated_bytes;              // touched or not: cache and buffers too
  bool on_device = false;

  uint64_t planned_bytes() const { return weight_bytes + cache_bytes + buffer_bytes; }
};

struct Model {
  std::string id;                  // the name it is served under
  std::vector<std::string> names;  // other names it answers to
  int64_t created = 0;             // unix seconds
  std::string family;              // "llama"
  std::string format;              // "affine 4-bit group 32"
  std::string executor;            // "cpu"
  std::string executor_detail;
  int32_t context_length = 0;     // tokens
  int32_t block_tokens = 0;       // of a block of the cache
  tier::Fingerprint fingerprint;  // of its blocks on the disk; empty: they are not there
  ModelMemory memory;
  std::vector<int32_t> stop_ids;
  GenerationDefaults defaults;  // absent where nobody says: kBuiltInDefaults
  std::shared_ptr<text::Codec> codec;
  std::shared_ptr<const text::ControlGuard> guard;  // of the codec's vocabulary
  std::shared_ptr<engine::Generator> generator;
  std::shared_ptr<engine::Encoder> encoder;  // the generator, of a model that encodes texts; else null
  bool scores_pairs = false;                 // the encoder gives one score for a pair of texts, no vector
};

/// Models that this process has loaded. Any thread.
inline std::atomic<uint64_t> n_models_loaded = 0;

}  // namespace penstock::pool
