// A model that is ready to serve: its names, its codec, its generator and its defaults.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "pool/generation_defaults.h"
#include "text/codec.h"
#include "text/control_guard.h"
#include "tier/block_file.h"

namespace penstock::pool {

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
  std::vector<int32_t> stop_ids;
  GenerationDefaults defaults;  // absent where nobody says: kBuiltInDefaults
  std::shared_ptr<text::Codec> codec;
  std::shared_ptr<const text::ControlGuard> guard;  // of the codec's vocabulary
  std::shared_ptr<engine::Generator> generator;
};

/// Models that this process has loaded. Any thread.
inline std::atomic<uint64_t> n_models_loaded = 0;

}  // namespace penstock::pool
