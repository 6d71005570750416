#include "serve/script.h"

#include <algorithm>
#include <initializer_list>

#include "base/error.h"

namespace penstock::serve {
namespace {

using base::Code;
using base::Error;
using base::Json;

[[noreturn]] void reject(const std::string& where, const std::string& expected) {
  throw Error(Code::kInvalidRequest, "[serve.script] expected " + where + " to be " + expected);
}

void check_names(const Json& object, const std::string& where,
                 std::initializer_list<std::string_view> known) {
  if (!object.is_object()) reject(where, "an object");
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      reject(where, "without the unknown field " + key);
  }
}

template <class T>
void read(const Json& object, const char* key, T& out) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  try {
    out = found->get<T>();
  } catch (const Json::exception& error) {
    reject(key, std::string("of another type: ") + error.what());
  }
}

std::string piece_bytes(const Json& piece) {
  if (piece.is_string()) return piece.get<std::string>();
  if (!piece.is_object() || !piece.contains("bytes")) reject("a piece", "a text or {\"bytes\": [...]}");
  std::string bytes;
  for (const Json& value : piece["bytes"]) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > 255) reject("bytes", "numbers from 0 to 255");
    bytes.push_back(static_cast<char>(value.get<uint8_t>()));
  }
  return bytes;
}

/// The value for piece `i` of a field that is one value for all or a list.
template <class T>
T value_at(const Json& object, const char* key, size_t i, T otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  if (!found->is_array()) return found->get<T>();
  return i < found->size() ? (*found)[i].get<T>() : otherwise;
}

std::vector<ScriptedPiece> parse_pieces(const Json& reply) {
  std::vector<ScriptedPiece> pieces;
  const Json texts = reply.value("pieces", Json::array());
  for (size_t i = 0; i < texts.size(); ++i) {
    ScriptedPiece piece;
    piece.bytes = piece_bytes(texts[i]);
    piece.delay_ms = value_at<int64_t>(reply, "delays_ms", i, 0);
    piece.logprob = value_at<float>(reply, "logprobs", i, -0.5f);
    if (reply.contains("top") && i < reply["top"].size()) {
      for (const Json& pair : reply["top"][i])
        piece.top.emplace_back(piece_bytes(pair[0]), pair[1].get<float>());
    }
    pieces.push_back(std::move(piece));
  }
  const auto repeat = reply.value("repeat", int64_t{1});
  const std::vector<ScriptedPiece> once = pieces;
  for (int64_t i = 1; i < repeat; ++i) pieces.insert(pieces.end(), once.begin(), once.end());
  return pieces;
}

ScriptedEnd parse_end(const std::string& word) {
  constexpr std::string_view kWords[] = {"stop", "length", "error", "vanish", "crash"};
  const auto found = std::find(std::begin(kWords), std::end(kWords), word);
  if (found == std::end(kWords)) reject("finish", "stop, length, error, vanish or crash");
  return static_cast<ScriptedEnd>(found - std::begin(kWords));
}

ScriptedReply parse_reply(const Json& object, const std::string& where) {
  check_names(object, where,
              {"match", "pieces", "repeat", "delays_ms", "logprobs", "top", "report", "group",
               "cached_tokens", "end_delay_ms", "finish", "error"});
  ScriptedReply reply;
  std::string finish = "stop";
  read(object, "match", reply.match);
  read(object, "report", reply.report);
  read(object, "group", reply.group);
  read(object, "cached_tokens", reply.cached_tokens);
  read(object, "end_delay_ms", reply.end_delay_ms);
  read(object, "finish", finish);
  read(object, "error", reply.error);
  reply.end = parse_end(finish);
  reply.pieces = parse_pieces(object);
  if (reply.group < 1) reject(where + ".group", "at least 1");
  return reply;
}

pool::GenerationDefaults parse_defaults(const Json& object) {
  check_names(object, "defaults", {"temperature", "top_p", "min_p", "repetition_penalty", "top_k"});
  pool::GenerationDefaults defaults;
  const auto number = [&](const char* key, std::optional<float>& out) {
    if (object.contains(key)) out = object[key].get<float>();
  };
  number("temperature", defaults.temperature);
  number("top_p", defaults.top_p);
  number("min_p", defaults.min_p);
  number("repetition_penalty", defaults.repetition_penalty);
  if (object.contains("top_k")) defaults.top_k = object["top_k"].get<int32_t>();
  return defaults;
}

Script read_script(const Json& root) {
  check_names(root, "the script",
              {"model", "names", "context_length", "max_num_seqs", "max_queue", "gather", "tick_ms",
               "template", "special_tokens", "tool_format", "reasoning_format", "defaults", "replies"});
  Script script;
  read(root, "model", script.model);
  read(root, "names", script.names);
  read(root, "context_length", script.context_length);
  read(root, "max_num_seqs", script.max_num_seqs);
  read(root, "max_queue", script.max_queue);
  read(root, "gather", script.gather);
  read(root, "tick_ms", script.tick_ms);
  read(root, "special_tokens", script.special_tokens);
  read(root, "tool_format", script.tool_format);
  read(root, "reasoning_format", script.reasoning_format);
  if (root.contains("defaults")) script.defaults = parse_defaults(root["defaults"]);
  const Json chat_template = root.value("template", Json());
  script.has_template = chat_template != false;
  if (chat_template.is_string()) script.chat_template = chat_template.get<std::string>();
  if (script.context_length < 2 || script.max_num_seqs < 1 || script.max_queue < 0 || script.gather < 1 ||
      script.tick_ms < 0) {
    reject("context_length, max_num_seqs, max_queue, gather and tick_ms", "at least 2, 1, 0, 1 and 0");
  }
  const Json replies = root.value("replies", Json::array());
  for (size_t i = 0; i < replies.size(); ++i) {
    script.replies.push_back(parse_reply(replies[i], "replies[" + std::to_string(i) + "]"));
  }
  if (script.replies.empty()) reject("replies", "a list of at least one");
  return script;
}

}  // namespace

Script parse_script(std::string_view text) {
  const Json root = base::parse_json(text, "the script");
  try {
    return read_script(root);
  } catch (const Json::exception& error) {
    reject("the script", std::string("as documented: ") + error.what());
  }
}

}  // namespace penstock::serve
