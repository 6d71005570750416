// The file that --engine scripted:FILE plays: the format is docs/dev/scripted_engine.md. Plain data, read
// once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "pool/model.h"

namespace penstock::serve {

enum class ScriptedEnd { kStop, kLength, kError, kVanish, kCrash };

struct ScriptedPiece {
  std::string bytes;
  int64_t delay_ms = 0;  // before it
  float logprob = -0.5f;
  std::vector<std::pair<std::string, float>> top;  // piece, logprob
};

struct ScriptedReply {
  std::string match;  // plays for prompts that contain it; empty: in turn
  std::vector<ScriptedPiece> pieces;
  bool report = false;  // the pieces are the job itself as JSON
  int32_t group = 1;    // tokens that the engine hands over at once
  int32_t cached_tokens = 0;
  int64_t end_delay_ms = 0;
  ScriptedEnd end = ScriptedEnd::kStop;
  std::string error;
};

struct Script {
  std::string model = "scripted";
  std::vector<std::string> names;
  int32_t context_length = 4096;
  int32_t max_num_seqs = 8;
  int32_t max_queue = 64;
  int32_t gather = 1;   // an idle engine starts when so many sequences are there
  int64_t tick_ms = 0;  // pieces come at multiples of it, so that sequences share steps
  bool has_template = true;
  std::string chat_template;  // empty: the plain one of the scripted codec
  std::vector<std::string> special_tokens;
  std::string tool_format = "auto", reasoning_format = "auto";  // as the settings of a model
  pool::GenerationDefaults defaults;
  std::vector<ScriptedReply> replies;  // at least one
};

/// Throws Error(kInvalidRequest) naming the field at fault; unknown fields are faults.
Script parse_script(std::string_view text);

}  // namespace penstock::serve
