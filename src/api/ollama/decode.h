// Bodies of /api/generate and /api/chat as chat requests. Pure functions; errors carry the field's path.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/reader.h"
#include "base/json.h"
#include "chat/request.h"
#include "library/entry.h"
#include "pool/model_pool.h"

namespace penstock::api::ollama {

struct Decoded {
  chat::Request request;  // `model` is left to the caller
  bool stream = true;
  bool is_load = false;  // nothing to answer: the model is loaded, or unloaded where `keep` is 0
  bool shows_reasoning = true;
  std::optional<pool::KeepLoaded> keep;
  std::vector<std::string> ignored;  // names that nothing here knows
};

/// What the request does not say, the preset of its model does.
Decoded decode_generate(const base::Json& body, const library::Preset& preset);
Decoded decode_chat(const base::Json& body, const library::Preset& preset);

/// The messages of a chat.
std::vector<chat::Message> decode_messages(const Reader& reader);

/// Throws Error(kUnsupported) for a field that is neither absent nor empty, as some clients send it always.
void refuse_unless_empty(const Reader& reader, const char* name, const char* why);

/// Throws Error(kUnsupported) for `images` that are not empty.
void check_no_images(const Reader& reader);

/// `options` of a request, over those of the preset.
void read_options(const Reader& reader, const base::Json& preset, Decoded& out);

/// The parameters of a preset: throws for one that a request could not have.
void check_options(const Reader& reader, std::string_view name);

/// `model`, or `name` as it once was called. Throws Error(kInvalidRequest) without one.
std::string read_model(const Reader& reader);

}  // namespace penstock::api::ollama
