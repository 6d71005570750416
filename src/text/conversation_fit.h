// Fits a conversation to what a template can take, where the template would print garbage or refuse it. Pure
// functions.
#pragma once

#include <string>

#include "base/json.h"
#include "text/chat_template.h"

namespace penstock::text {

/// Whether the template reads `content` given as a list of parts (found out by rendering one).
bool takes_content_parts(const ChatTemplate& chat_template);

/// Messages whose `content` is a list of text parts only get the texts joined by newlines instead.
void join_text_parts(base::Json& messages);

/// System messages become one at the front and neighbouring user messages one, each joined by an empty line.
/// Messages with anything but text in them are left alone.
void merge_turns(base::Json& messages);

/// ChatTemplate::render, with text parts joined if the template takes none. If it then refuses the
/// conversation, once more with merged turns; if it refuses that too, the first refusal is thrown.
std::string render_fitted(const ChatTemplate& chat_template, base::Json context);

}  // namespace penstock::text
