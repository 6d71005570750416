// The fields of POST /v1/responses (api/fields.h); docs/reference/responses.md lists the same.
#pragma once

#include <span>

#include "api/fields.h"

namespace penstock::api::responses {

std::span<const Field> create_fields();

}  // namespace penstock::api::responses
