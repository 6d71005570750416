#include "formats/call_grammar.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "formats/tool_format.h"
#include "formats/tool_set.h"
#include "formats/value_kinds.h"

namespace penstock::formats {
namespace {

using base::Json;

const Json& function_of(const Json& tool) {
  const auto function = tool.find("function");
  return function == tool.end() ? tool : *function;
}

/// What is written for one tool in place of the words of a shape: rules, not texts.
struct Parts {
  std::string name, arguments, parameters, key, is_string, type;
};

class CallGrammar {
 public:
  CallGrammar(const ToolFormat& format, const CallGrammarOptions& options)
      : shape_(format.shape), options_(options), markers_(format.spelled) {
    // Where one marker begins another, the longer one counts.
    std::sort(markers_.begin(), markers_.end(), [](auto a, auto b) { return a.size() > b.size(); });
  }

  std::string source(const Json& tools) {
    std::string any;
    for (size_t i = 0; i < tools.size(); ++i) {
      const std::string rule = "call_" + std::to_string(i);
      any += (i == 0 ? "" : " | ") + rule;
      add_call(rule, function_of(tools[i]));
    }
    const std::string more = options_.several ? " (" + text(shape_.between, {}) + " call)*" : "";
    std::string before(shape_.before);
    if (options_.after_trigger && !before.empty()) before.erase(0, shape_.trigger.size());
    // The mark may begin the call itself: then the first call lacks it.
    std::string first = "call";
    if (options_.after_trigger && shape_.before.empty()) {
      first = "first";
      rules_ += "first: " + first_ + "\n";
    }
    return "start: " + text(before, {}) + " " + first + more + " " + text(shape_.after, {}) +
           "\ncall: " + any + "\n" + rules_;
  }

 private:
  void add_call(const std::string& rule, const Json& function) {
    const std::string name = function.at("name").get<std::string>();
    const auto declared = function.find("parameters");
    Json schema = declared != function.end() && declared->is_object() ? *declared : Json::object();
    Parts parts = {.name = literal(name)};
    if (shape_.parameter.empty()) {
      if (!schema.contains("type")) schema["type"] = "object";
      parts.arguments = rule + "_arguments";
      rules_ += parts.arguments + ": %json " + json(schema) + "\n";
    } else {
      parts.parameters = add_parameters(rule, schema);
    }
    rules_ += rule + ": " + text(shape_.call, parts) + "\n";
    if (options_.after_trigger && shape_.before.empty()) {
      first_ += (first_.empty() ? "" : " | ") + text(shape_.call.substr(shape_.trigger.size()), parts);
    }
  }

  /// A rule for each parameter; those that are not required may be missing.
  std::string add_parameters(const std::string& rule, const Json& schema) {
    std::vector<std::string> required, optional;
    const auto properties = schema.find("properties");
    if (properties == schema.end() || !properties->is_object()) return "\"\"";
    const auto named = schema.find("required");
    for (const auto& [key, property] : properties->items()) {
      const bool is_required = named != schema.end() && named->is_array() &&
                               std::find(named->begin(), named->end(), Json(key)) != named->end();
      std::vector<std::string>& rules = is_required ? required : optional;
      rules.push_back(rule + (is_required ? "_r" : "_o") + std::to_string(rules.size()));
      add_parameter(rules.back(), key, property, schema);
    }
    return listed(required, optional);
  }

  /// All of `required`, then any of `optional`, in their order and with separators between.
  std::string listed(const std::vector<std::string>& required,
                     const std::vector<std::string>& optional) const {
    const std::string separator = shape_.separator.empty() ? "" : literal(shape_.separator) + " ";
    const auto row = [&](size_t first) {  // the optional ones from there on, each behind a separator
      std::string out;
      for (size_t i = first; i < optional.size(); ++i) out += " (" + separator + optional[i] + ")?";
      return out;
    };
    std::string out;
    if (!required.empty()) {
      for (const std::string& one : required) out += (out.empty() ? "" : " " + separator) + one;
      return "(" + out + row(0) + ")";
    }
    for (size_t i = 0; i < optional.size(); ++i) {
      out += (i == 0 ? "(" : " | ") + optional[i] + row(i + 1);
      if (separator.empty()) return "(" + row(0).substr(1) + ")";
    }
    return out.empty() ? "\"\"" : out + ")?";
  }

  void add_parameter(const std::string& rule, const std::string& key, const Json& property,
                     const Json& root) {
    const size_t at = shape_.parameter.find("$value");
    const std::string_view head = shape_.parameter.substr(0, at);
    const std::string_view end = shape_.parameter.substr(at + std::string_view("$value").size());
    const Kinds kinds = kinds_of(&root, key);
    const bool is_text = kinds.has(Kinds::kString) && !shape_.has_json_strings;
    const Parts parts = {.key = literal(key),
                         .is_string = is_text ? "\"true\"" : "\"false\"",
                         .type = literal(is_text ? "string" : type_name(kinds))};
    std::string value, tail = " " + text(end, parts);
    if (is_text && property.is_object() && property.contains("enum")) {
      for (const Json& one : property["enum"]) {
        const std::string written = one.is_string() ? one.get<std::string>() : one.dump();
        value += (value.empty() ? "(" : " | ") + literal(written);
      }
      value += ")";
    } else if (is_text) {
      // Any text, lines too, to where the tag first closes: a control token, or bytes that the rule then has
      // in it.
      value = rule + "_text";
      const bool ends_by_token = tail.find("<[") != std::string::npos;
      rules_ += value + (ends_by_token ? "" : "[suffix=" + literal(end) + "]") + ": /(?s:.*)/\n";
      if (!ends_by_token) tail.clear();
    } else {
      Json schema = property.is_object() ? property : Json::object();
      if (root.contains("$defs")) schema["$defs"] = root["$defs"];
      value = rule + "_json";
      rules_ += value + ": %json " + json(schema) + "\n";
    }
    rules_ += rule + ": " + text(head, parts) + " " + value + tail + "\n";
  }

  static std::string_view type_name(Kinds kinds) {
    if (kinds.has(Kinds::kNumber)) return "number";
    if (kinds.has(Kinds::kBoolean)) return "boolean";
    if (kinds.has(Kinds::kArray)) return "array";
    return kinds.has(Kinds::kObject) ? "object" : "null";
  }

  std::string json(const Json& schema) const {
    const std::string source = schema.dump();
    return options_.json_part ? options_.json_part(source) : source;
  }

  static std::string literal(std::string_view text) { return Json(std::string(text)).dump(); }

  /// A text of the shape as a sequence of rules: its words, control tokens by their ids, all else as it
  /// stands.
  std::string text(std::string_view shape, const Parts& parts) const {
    const std::vector<std::pair<std::string_view, std::string>> words = {
        {"$name", parts.name},   {"$arguments", parts.arguments}, {"$parameters", parts.parameters},
        {"$key", parts.key},     {"$is_string", parts.is_string}, {"$type", parts.type},
        {"$number", "/[0-9]+/"},
    };
    std::string out, plain;
    const auto flush = [&] {
      if (!plain.empty()) out += (out.empty() ? "" : " ") + literal(plain);
      plain.clear();
    };
    while (!shape.empty()) {
      size_t taken = 0;
      std::string rule;
      for (const auto& [word, by] : words) {
        if (taken == 0 && shape.starts_with(word)) taken = word.size(), rule = by;
      }
      for (const std::string_view marker : markers_) {
        if (taken > 0 || !options_.control_token || !shape.starts_with(marker)) continue;
        const std::optional<int32_t> id = options_.control_token(marker);
        if (id.has_value()) taken = marker.size(), rule = "<[" + std::to_string(*id) + "]>";
      }
      if (taken == 0) {
        plain += shape.front();
        shape.remove_prefix(1);
        continue;
      }
      flush();
      out += (out.empty() ? "" : " ") + rule;
      shape.remove_prefix(taken);
    }
    flush();
    return out.empty() ? "\"\"" : out;
  }

  const CallShape& shape_;
  const CallGrammarOptions& options_;
  std::vector<std::string_view> markers_;
  std::string rules_;
  std::string first_;  // alternatives of the first call behind the mark
};

}  // namespace

std::optional<std::string> call_grammar(const OutputFormat& format, const base::Json& tools,
                                        const CallGrammarOptions& options) {
  if (format.tools == nullptr || format.tools->shape.call.empty()) return std::nullopt;
  if (ToolSet(&tools).empty()) return std::nullopt;
  if (options.after_trigger && format.tools->shape.trigger.empty()) return std::nullopt;
  return CallGrammar(*format.tools, options).source(tools);
}

std::optional<std::string_view> call_trigger(const OutputFormat& format) {
  if (format.tools == nullptr || format.tools->shape.trigger.empty()) return std::nullopt;
  return format.tools->shape.trigger;
}

}  // namespace penstock::formats
