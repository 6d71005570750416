// How much a model is asked to think, as OpenAI's surfaces say it: a variable of the chat template. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/reader.h"
#include "chat/request.h"

namespace penstock::api {

/// Reads the field, one of none, minimal, low, medium, high, xhigh, into the variables of the template, which
/// win where they have it already.
std::optional<std::string> read_effort(const Reader& reader, std::string_view field,
                                       chat::Conversation& conversation);

}  // namespace penstock::api
