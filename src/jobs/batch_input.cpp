#include "jobs/batch_input.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"

namespace penstock::jobs {
namespace {

using base::Json;

constexpr size_t kMaxLines = 50000, kMaxErrors = 20;

/// What is wrong with one line.
struct Wrong {
  const char* code;
  std::string message;
  std::string param;
};

class InputReader {
 public:
  explicit InputReader(std::string_view endpoint) : endpoint_(endpoint) {}

  /// Throws Wrong.
  BatchInputLine read(std::string_view text) {
    Json line;
    try {
      line = base::parse_json(text, "the line");
    } catch (const base::Error& error) {
      throw Wrong{"invalid_json_line", std::string(error.text()), ""};
    }
    if (!line.is_object()) throw Wrong{"invalid_json_line", "expected an object", ""};
    const auto text_of = [&](const char* name) {
      const auto found = line.find(name);
      return found == line.end() || !found->is_string() ? std::string() : found->get<std::string>();
    };
    const std::string id = text_of("custom_id");
    if (id.empty())
      throw Wrong{"missing_required_parameter", "expected a text that names the request", "custom_id"};
    if (!ids_.insert(id).second)
      throw Wrong{"duplicate_custom_id", "expected a name of its own; got " + id + " again", "custom_id"};
    if (text_of("method") != "POST") throw Wrong{"invalid_method", "expected POST", "method"};
    if (text_of("url") != endpoint_)
      throw Wrong{"invalid_url", "expected the batch's endpoint, " + endpoint_, "url"};
    const auto body = line.find("body");
    if (body == line.end() || !body->is_object())
      throw Wrong{"missing_required_parameter", "expected an object", "body"};
    for (const char* name : {"stream", "background"}) {
      if (body->value(name, Json()) == true)
        throw Wrong{"invalid_request", "expected a request for a whole answer", std::string("body.") + name};
    }
    return {id, body->dump(-1, ' ', false, Json::error_handler_t::replace)};
  }

 private:
  const std::string endpoint_;
  std::unordered_set<std::string> ids_;
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

BatchInput read_batch_input(std::string_view text, std::string_view endpoint) {
  BatchInput input;
  InputReader reader(endpoint);
  for (int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (is_blank(line)) continue;
    try {
      input.lines.push_back(reader.read(line));
    } catch (const Wrong& wrong) {
      Json error = {{"code", wrong.code}, {"message", wrong.message}};
      error["param"] = wrong.param.empty() ? Json() : Json(wrong.param);
      error["line"] = number;
      input.errors.push_back(std::move(error));
      if (input.errors.size() == kMaxErrors) break;
    }
    if (input.lines.size() > kMaxLines) break;
  }
  const bool is_empty = input.lines.empty() && input.errors.empty();
  if (is_empty || input.lines.size() > kMaxLines) {
    input.errors.push_back({{"code", is_empty ? "empty_file" : "too_many_requests"},
                            {"message", "expected 1 to " + std::to_string(kMaxLines) + " requests"},
                            {"param", nullptr},
                            {"line", nullptr}});
  }
  return input;
}

}  // namespace penstock::jobs
