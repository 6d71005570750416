// Lossy UTF-8 decoding in pieces. Pure functions; text that is known to be complete needs none of this.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::text {

/// Appends `bytes` to `out` with U+FFFD for each maximal ill-formed part. Returns the number of bytes that
/// were taken: a tail that can still become a character (at most 3 bytes) is left.
size_t append_utf8(std::string_view bytes, std::string& out);

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace penstock::text
