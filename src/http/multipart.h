// Bodies of type multipart/form-data (RFC 7578), as browsers and SDKs upload files. Pure; strict: what is not
// of the form is refused whole.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::http {

struct FormPart {
  std::string name;
  std::optional<std::string> filename;  // of a file, as its client calls it: never a path here
  std::string_view data;                // of the body, which must outlive it
};

/// At most 64 parts with heads of at most 8 KiB. Throws Error: kUnsupportedMedia for another content type,
/// kInvalidRequest for a malformed body.
std::vector<FormPart> parse_form(std::string_view content_type, std::string_view body);

}  // namespace penstock::http
