// The metadata that clients attach to what is stored for them. Pure.
#pragma once

#include "api/reader.h"
#include "base/json.h"

namespace penstock::api {

/// The field `metadata`: up to 16 texts of up to 512 bytes under names of up to 64; an empty object where it
/// is absent. Throws Error(kInvalidRequest).
base::Json read_metadata(const Reader& reader);

}  // namespace penstock::api
