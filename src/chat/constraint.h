// What a client wants an answer to be held to. Plain data; whether it can be followed is serve's work.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::chat {

struct Constraint {
  enum class Kind : uint8_t {
    kJsonSchema,
    kJsonObject,  // any object; without text
    kRegex,
    kChoice,  // text: a JSON array of texts, of which the answer is one
    kLark,
  };
  Kind kind = Kind::kJsonObject;
  std::string text;
  bool strict = false;  // the client insists; all are followed exactly
  std::string field;    // of the request, for errors
};

}  // namespace penstock::chat
