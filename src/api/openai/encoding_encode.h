// The answers of /v1/embeddings and /v1/rerank. Pure functions.
#pragma once

#include <string>

#include "api/openai/encoding_decode.h"
#include "chat/encode_request.h"

namespace penstock::api::openai {

/// A document of JSON; vectors as numbers, or as base64 of float32 in little-endian order.
std::string embeddings_body(const chat::EncodeAnswer& answer, bool base64);

/// The best first; equal scores in the order of the documents. `id` is the answer's.
base::Json rerank_json(const chat::EncodeAnswer& answer, const std::string& id, const DecodedRerank& asked);

}  // namespace penstock::api::openai
