// The fields of each endpoint of the Anthropic surface (api/fields.h); docs/reference/anthropic.md lists the
// same.
#pragma once

#include <span>

#include "api/fields.h"

namespace penstock::api::anthropic {

std::span<const Field> message_fields();  // POST /v1/messages
std::span<const Field> count_fields();    // POST /v1/messages/count_tokens

}  // namespace penstock::api::anthropic
