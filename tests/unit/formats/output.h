// Feeds an output to a parser in several cuts and says what came out as JSON, for the tests of formats.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/format.h"

namespace penstock::formats::testing {

/// Ends of the pieces in which a text is fed: whole, byte by byte, and some random ones.
std::vector<std::vector<size_t>> cuts_of(std::string_view text);

/// The pieces of an output that is cut at `ends`, neighbours of a kind joined. Fails the test where a text is
/// not what was fed at its offset.
std::vector<Piece> parse(OutputParser& parser, std::string_view output, const std::vector<size_t>& ends);

/// Every cut gives the same pieces, or the test fails. [{"text": ...}, {"reasoning": ...}, {"call": name,
/// "id": ... if any, "arguments": ...}]: texts of a kind that only markup parts are joined; arguments of a
/// call without end are {"open": text}.
base::Json outcome(const OutputFormat& format, const ParserOptions& options, std::string_view output);

}  // namespace penstock::formats::testing
