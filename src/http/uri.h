// Percent coding and the parts of an absolute URL. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::http {

/// Decodes %XX. Nothing for a broken escape or an encoded NUL. `keep_slash` leaves %2F as it is.
std::optional<std::string> percent_decode(std::string_view text, bool keep_slash = false);

/// Encodes all but unreserved characters; `keep_slash` lets '/' through.
std::string percent_encode(std::string_view text, bool keep_slash = false);

/// The fields of a query ("a=1&b=x+y") in its order, decoded. Nothing for a broken escape.
std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query);

/// The URL without user, password, query and fragment: fit for logs and errors.
std::string public_url(std::string_view url);

/// "scheme://host:port" in lower case with the default port filled in; empty if `url` is not absolute.
std::string origin_of(std::string_view url);

}  // namespace penstock::http
