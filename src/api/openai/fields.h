// The fields of each endpoint of the OpenAI surface (api/fields.h); docs/reference/openai.md lists the same.
#pragma once

#include <span>

#include "api/fields.h"

namespace penstock::api::openai {

std::span<const Field> chat_fields();        // POST /v1/chat/completions
std::span<const Field> completion_fields();  // POST /v1/completions
std::span<const Field> embedding_fields();   // POST /v1/embeddings
std::span<const Field> rerank_fields();      // POST /v1/rerank

}  // namespace penstock::api::openai
