// The bodies of the endpoints that encode texts: /v1/embeddings and /v1/rerank. Pure functions; errors carry
// the field's path.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "chat/encode_request.h"

namespace penstock::api::openai {

struct DecodedEmbeddings {
  chat::EncodeRequest request;
  bool base64 = false;
  std::vector<std::string> ignored;  // names that nothing here knows
};

struct DecodedRerank {
  chat::EncodeRequest request;
  size_t top_n = 0;                   // at most the number of documents
  std::vector<base::Json> documents;  // as they came, where they are to be returned; else empty
  std::vector<std::string> ignored;
};

/// POST /v1/embeddings.
DecodedEmbeddings decode_embeddings(const base::Json& body);

/// POST /v1/rerank, in the form that Cohere's and Jina's clients send.
DecodedRerank decode_rerank(const base::Json& body);

}  // namespace penstock::api::openai
