// The one table from error code to OpenAI's error shape. Pure functions.
#pragma once

#include <string>

#include "base/error.h"
#include "base/json.h"
#include "http/message.h"

namespace penstock::api::openai {

/// An error whose `code` word is more exact than its kind ("invalid_json").
class CodedError : public base::Error {
 public:
  CodedError(base::Code code, std::string word, const std::string& message, std::string param = {})
      : base::Error(code, message, std::move(param)), word_(std::move(word)) {}
  const std::string& word() const { return word_; }

 private:
  std::string word_;
};

/// {"error": {"message", "type", "param", "code"}}, always with all four.
base::Json error_envelope(const base::Error& error);

int status_of(base::Code code);

/// Status and envelope. ApiServer adds Retry-After to 429 and 503.
http::Response error_response(const base::Error& error);

}  // namespace penstock::api::openai
