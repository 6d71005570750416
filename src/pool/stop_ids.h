// Which token ids end a turn: every id that any config file names, checked against the vocabulary, and the
// turn enders that the chat template itself writes. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace penstock::pool {

struct StopIdSource {
  std::string file;      // "generation_config.json"
  base::Json ids;        // an integer, a list of integers, or null
  bool trusted = false;  // may name a token that is not marked special
};

struct StopIds {
  std::vector<int32_t> ids;           // sorted, each once
  std::vector<std::string> warnings;  // what was ignored, and why
};

/// Ids outside the vocabulary are ignored with a warning; an id that is ordinary text is ignored unless its
/// source is trusted. `template_source` adds well-known turn enders that are both in the vocabulary and
/// written by the template.
StopIds collect_stop_ids(const std::vector<StopIdSource>& sources, const text::Tokenizer& tokenizer,
                         std::string_view template_source);

}  // namespace penstock::pool
