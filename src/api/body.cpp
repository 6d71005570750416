#include "api/body.h"

#include <algorithm>
#include <cctype>

#include "api/reader.h"
#include "base/json_reader.h"

namespace penstock::api {
namespace {

using base::Code;
using base::Json;

constexpr int kMaxDepth = 128;
constexpr size_t kMaxValues = 1'000'000;  // more would hold up the io thread, which reads them

/// "application/json; charset=utf-8" and "application/x+json" are JSON.
bool is_json_type(std::string_view content_type) {
  std::string type(content_type.substr(0, content_type.find(';')));
  type.erase(type.find_last_not_of(" \t") + 1);
  std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::tolower(c); });
  return type.empty() || type == "application/json" || type.ends_with("+json");
}

}  // namespace

Json parse_body(const http::Request& request) {
  const auto invalid = [](const std::string& message) {
    return CodedError(Code::kInvalidRequest, "invalid_json", "[api.body] " + message);
  };
  if (const std::string_view type = request.header("content-type"); !is_json_type(type))
    throw invalid("expected Content-Type: application/json; got " + std::string(type.substr(0, 100)));
  if (request.body.empty()) throw invalid("expected a JSON object as the body; got an empty body");
  if (base::is_nested_deeper(request.body, kMaxDepth)) {
    throw CodedError(
        Code::kInvalidRequest, "request_body_too_deep",
        "[api.body] expected JSON nested at most " + std::to_string(kMaxDepth) + " levels; got more");
  }
  try {
    Json body = base::read_json(request.body, "the body", {.depth = kMaxDepth, .values = kMaxValues});
    if (!body.is_object()) throw invalid("expected a JSON object as the body; got " + shown(body));
    return body;
  } catch (const base::Error& error) {
    if (error.code() != Code::kInvalidRequest || dynamic_cast<const CodedError*>(&error) != nullptr) throw;
    throw invalid(std::string(error.text()));
  }
}

}  // namespace penstock::api
