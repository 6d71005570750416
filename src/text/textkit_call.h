// Status codes of the Rust crate as exceptions. Only the owners of its handles use it, here and in src/grammar.
#pragma once

#include <string>
#include <string_view>

#include "textkit.h"

namespace penstock::text {

/// Throws base::Error for a status other than TEXTKIT_OK, with the crate's words after "[`operation`] ".
void check(int32_t status, std::string_view operation);

inline TextkitBytes view_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace penstock::text
