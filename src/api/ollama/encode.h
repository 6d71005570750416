// Chat events as the objects of /api/generate and /api/chat. Pure: the clock comes in.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "api/whole_choice.h"
#include "base/json.h"
#include "chat/event.h"

namespace penstock::api::ollama {

enum class Endpoint { kGenerate, kChat };

/// What one object says.
struct Said {
  std::string text, thinking;
  std::vector<WholeCall> calls;  // complete ones
  std::vector<chat::TokenLogprob> logprobs;
  bool has_logprobs = false;
};

/// How long it took.
struct Durations {
  std::chrono::nanoseconds total{0}, load{0};
  double prefill_ms = 0, decode_ms = 0;
};

class Encoder {
 public:
  /// `model` is the name that the request used.
  Encoder(Endpoint endpoint, std::string model) : endpoint_(endpoint), model_(std::move(model)) {}

  /// An object of a stream.
  base::Json chunk(const std::string& created_at, const Said& said) const;

  /// The last object of a stream, or with `said` the only one.
  base::Json last(const std::string& created_at, const Said& said, const chat::Finished& finished,
                  const chat::Done& done, const Durations& durations) const;

  /// The answer to a request that only loads ("load") or unloads ("unload").
  base::Json idle(const std::string& created_at, const char* reason) const;

 private:
  base::Json object(const std::string& created_at, const Said& said, bool is_done) const;

  const Endpoint endpoint_;
  const std::string model_;
};

}  // namespace penstock::api::ollama
