// The three sets of fields of each endpoint of the Ollama surface; docs/reference/ollama.md lists the same,
// and a test compares the two.
#pragma once

#include "api/fields.h"

namespace penstock::api::ollama {

std::span<const Field> generate_fields();
std::span<const Field> chat_fields();
std::span<const Field> option_fields();  // of the two: `options`, and `parameters` of create
std::span<const Field> show_fields();
std::span<const Field> pull_fields();
std::span<const Field> create_fields();
std::span<const Field> copy_fields();
std::span<const Field> delete_fields();

}  // namespace penstock::api::ollama
