// Texts to be made vectors, or ranked for a query, in the one form that every API surface decodes to, and
// what becomes of them. Plain data: nothing here is checked against a model, that is serve's work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "chat/event.h"
#include "chat/request.h"

namespace penstock::chat {

/// A vector for each text; token ids are taken as they are, with nothing around them.
struct Embed {
  std::vector<std::variant<std::string, std::vector<int32_t>>> texts;
  std::optional<int64_t> dimensions;  // the first ones, made a vector of length 1 again
};

/// A score for each document.
struct Rank {
  std::string query;
  std::vector<std::string> documents;
};

struct EncodeRequest {
  std::string id;     // by which it may be cancelled; empty: it cannot be
  std::string model;  // empty: the default one
  std::variant<Embed, Rank> input;
  std::string field = "input";        // of the client's that holds the texts, for errors
  bool truncate = false;              // texts that are too long lose their end; else they are an error
  std::optional<int64_t> timeout_ms;  // from when it was read; absent: the server's setting
  Origin origin;
};

struct EncodeAnswer {
  std::string model;          // its id
  int32_t width = 0;          // numbers of a text; 1 of a document
  std::vector<float> values;  // [texts, width]
  Usage usage;
  Receipt receipt;
};

}  // namespace penstock::chat
