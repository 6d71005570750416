// The one exception type of the program. A code says what kind of failure it is; each API surface has one
// table from code to its own error shape. Expected outcomes are return values, not errors.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace penstock::base {

enum class Code {
  kInvalidRequest,    // the caller's input is wrong
  kContextLength,     // the prompt does not fit the model's context
  kUnauthorized,      // no key, or a wrong one
  kForbidden,         // known, and not allowed to
  kNotFound,          // a model, file or route that is not there
  kMethodNotAllowed,  // the route exists, the method does not
  kTooLarge,          // over a configured size
  kUnsupportedMedia,  // an encoding or content type that is not read here
  kTimeout,           // the peer or the work took too long
  kOverloaded,        // a bounded queue is full: try again later
  kUnavailable,       // starting, draining or stopped
  kCancelled,         // the caller went away or said so
  kCorrupt,           // a file is damaged, truncated or hostile
  kUnsupported,       // understood, and not done by this program
  kIo,                // the operating system or the network failed
  kInternal,          // a defect of this program
};

/// Lower-case name of a code, for logs and tests ("invalid_request").
std::string_view name(Code code);

class Error : public std::runtime_error {
 public:
  /// `message` reads "[folder.operation] what was expected; got what".
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}

  /// `param` is the path of the request field at fault ("messages[2].content").
  Error(Code code, const std::string& message, std::string param)
      : std::runtime_error(message), code_(code), param_(std::move(param)) {}

  Code code() const { return code_; }
  const std::string& param() const { return param_; }

  /// The message without its leading "[folder.operation] ", as clients and users see it.
  std::string_view text() const;

 private:
  Code code_;
  std::string param_;
};

}  // namespace penstock::base
