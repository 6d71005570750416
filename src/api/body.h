// The JSON body of a request, and errors with a word of their own. Pure functions.
#pragma once

#include <string>

#include "base/error.h"
#include "base/json.h"
#include "http/message.h"

namespace penstock::api {

/// An error whose `code` word is more exact than its kind ("invalid_json").
class CodedError : public base::Error {
 public:
  CodedError(base::Code code, std::string word, const std::string& message, std::string param = {})
      : base::Error(code, message, std::move(param)), word_(std::move(word)) {}
  const std::string& word() const { return word_; }

 private:
  std::string word_;
};

/// The body as an object. Throws CodedError: "invalid_json" for a wrong content type, an empty or malformed
/// body, "request_body_too_deep" for one nested too deeply.
base::Json parse_body(const http::Request& request);

}  // namespace penstock::api
