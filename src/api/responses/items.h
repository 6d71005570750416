// Items of a conversation as the Responses API writes them, and the messages that they stand for. Pure, but
// for the ids that items without one get.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/reader.h"
#include "api/responses/tools.h"
#include "base/json.h"
#include "chat/message.h"

namespace penstock::api::responses {

/// The items of `input`, a text or a list, in full: each with a type, an id and a status, contents as parts.
/// Throws with the path of what is wrong.
std::vector<base::Json> read_input(const Reader& reader);

/// `encrypted_content` of a reasoning item. It is the text itself behind a word, since the item shows it
/// anyway: some clients send nothing else of an item back.
std::string carried_reasoning(const std::string& text);

/// The ids of item_reference items.
std::vector<std::string> references_in(const std::vector<base::Json>& items);

/// The ids of the files that the items' parts name.
std::vector<std::string> files_in(const std::vector<base::Json>& items);

/// The same with each reference replaced by what it names.
std::vector<base::Json> resolved(std::vector<base::Json> items,
                                 const std::map<std::string, base::Json>& references);

/// An uploaded file as the model reads it.
struct FileText {
  std::string name, text;
};

/// Reasoning, text and calls that follow one another are one message of the assistant. Throws
/// Error(kInvalidRequest) for the output of a call that is not there.
std::vector<chat::Message> to_messages(const std::vector<base::Json>& items,
                                       const std::map<std::string, FileText>& files);

}  // namespace penstock::api::responses
