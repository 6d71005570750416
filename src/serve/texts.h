// From texts and a ready model to the encoder's job. Pure.
#pragma once

#include "chat/encode_request.h"
#include "engine/encoder.h"
#include "pool/model.h"

namespace penstock::serve {

/// Throws Error(kUnsupported) with the field "model" for one without an encoder of the kind, and
/// Error(kInvalidRequest) for more dimensions than it has.
void check(const chat::EncodeRequest& request, const pool::Model& model);

/// Throws what the tokenizer throws, and Error(kContextLength) with the field and the numbers where a text is
/// too long and not to be truncated.
engine::EncodeJob prepare_texts(const chat::EncodeRequest& request, const pool::Model& model);

/// Only the first `dimensions` of each vector of `width`, of length 1 again.
std::vector<float> first_dimensions(std::vector<float> values, size_t width, size_t dimensions);

}  // namespace penstock::serve
