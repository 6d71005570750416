#include "api/openai/encoding_decode.h"

#include <algorithm>

#include "api/openai/decode.h"
#include "api/openai/fields.h"
#include "api/reader.h"
#include "base/error.h"

namespace penstock::api::openai {
namespace {

using base::Json;

constexpr size_t kMaxTexts = 2048;  // as the official endpoint

void read_encoding(const Reader& reader, chat::EncodeRequest& request) {
  request.model = reader.string("model").value_or("");
  request.truncate = reader.boolean("truncate").value_or(false);
  request.timeout_ms = reader.integer("timeout_ms", 1);
}

chat::Embed decode_input(const Reader& reader) {
  constexpr const char* kExpected =
      "a text, a list of up to 2048 texts, token ids, or a list of up to 2048 lists of token ids, none empty";
  const Json* input = reader.find("input");
  if (input == nullptr) reader.reject("input", kExpected);
  const Json list = input->is_string() || is_token_ids(*input) ? Json::array({*input}) : *input;
  if (!list.is_array() || list.empty() || list.size() > kMaxTexts) reader.reject("input", kExpected);
  chat::Embed embed;
  for (const Json& entry : list) {
    if (entry.is_string() && !entry.get_ref<const std::string&>().empty()) {
      embed.texts.emplace_back(entry.get<std::string>());
    } else if (is_token_ids(entry)) {
      embed.texts.emplace_back(entry.get<std::vector<int32_t>>());
    } else {
      reader.reject("input", kExpected);
    }
  }
  return embed;
}

/// A text, or an object with one.
const std::string* document_text(const Json& document) {
  const Json* text = &document;
  if (document.is_object() && document.contains("text")) text = &document["text"];
  return text->is_string() ? text->get_ptr<const std::string*>() : nullptr;
}

}  // namespace

DecodedEmbeddings decode_embeddings(const Json& body) {
  const Reader reader(body);
  DecodedEmbeddings out;
  out.ignored = unknown_fields(body, embedding_fields());
  read_encoding(reader, out.request);
  const std::string format = reader.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64") reader.reject("encoding_format", "float or base64");
  out.base64 = format == "base64";
  chat::Embed embed = decode_input(reader);
  embed.dimensions = reader.integer("dimensions", 1);
  out.request.input = std::move(embed);
  return out;
}

DecodedRerank decode_rerank(const Json& body) {
  constexpr const char* kExpected = "a list of up to 2048 texts or objects with a text";
  const Reader reader(body);
  DecodedRerank out;
  out.ignored = unknown_fields(body, rerank_fields());
  read_encoding(reader, out.request);
  out.request.field = "documents";
  chat::Rank rank;
  rank.query = reader.string("query").value_or("");
  if (rank.query.empty()) reader.reject("query", "a text that is not empty");
  const Json* documents = reader.find("documents");
  if (documents == nullptr || !documents->is_array() || documents->empty() || documents->size() > kMaxTexts)
    reader.reject("documents", kExpected);
  const bool returns = reader.boolean("return_documents").value_or(false);
  for (const Json& document : *documents) {
    const std::string* text = document_text(document);
    if (text == nullptr) reader.reject("documents", kExpected);
    rank.documents.push_back(*text);
    if (returns) out.documents.push_back({{"text", *text}});
  }
  const auto top_n = reader.integer("top_n", 1);
  out.top_n = top_n ? std::min(static_cast<size_t>(*top_n), rank.documents.size()) : rank.documents.size();
  out.request.input = std::move(rank);
  return out;
}

}  // namespace penstock::api::openai
