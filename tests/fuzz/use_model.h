// Reads everything that a model's files gave, as loading and serving would. Throws what they throw.
#pragma once

#include "models/model_files.h"
#include "pool/model_text.h"

namespace penstock::fuzz {

/// Some rows of every matrix, as numbers and as codes.
void use_weights(const models::ModelFiles& files);

/// A text there and back, every piece, and the chat template.
void use_text(const pool::ModelText& text);

}  // namespace penstock::fuzz
