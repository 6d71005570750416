// The text encoding of everything that leaves the program. Pure.
#pragma once

#include <string>

#include "base/json.h"

namespace penstock::base {

/// Whether the bytes are whole, well-formed UTF-8 characters.
inline bool is_utf8(const std::string& bytes) {
  try {
    static_cast<void>(Json(bytes).dump());
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

}  // namespace penstock::base
