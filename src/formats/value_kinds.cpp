#include "formats/value_kinds.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "formats/json_value.h"
#include "formats/literal.h"

namespace penstock::formats {
namespace {

constexpr int kDepth = 16;  // of references and alternatives

using base::Json;

Kinds kind_named(std::string_view type) {
  if (type == "string") return Kinds::kString;
  if (type == "integer" || type == "number") return Kinds::kNumber;
  if (type == "boolean") return Kinds::kBoolean;
  if (type == "null") return Kinds::kNull;
  if (type == "array") return Kinds::kArray;
  if (type == "object") return Kinds::kObject;
  return {};
}

Kinds kind_of(const Json& value) {
  if (value.is_string()) return Kinds::kString;
  if (value.is_number()) return Kinds::kNumber;
  if (value.is_boolean()) return Kinds::kBoolean;
  if (value.is_null()) return Kinds::kNull;
  return value.is_array() ? Kinds::kArray : Kinds::kObject;
}

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

const Json* referred(const Json& root, const std::string& reference) {
  if (!reference.starts_with("#/")) return nullptr;
  const Json* at = &root;
  for (size_t begin = 2; begin <= reference.size();) {
    const size_t end = std::min(reference.find('/', begin), reference.size());
    at = member(*at, reference.substr(begin, end - begin).c_str());
    if (at == nullptr) return nullptr;
    begin = end + 1;
  }
  return at;
}

Kinds kinds_of_schema(const Json& root, const Json& schema, int depth) {
  Kinds out;
  if (depth == 0 || !schema.is_object()) return out;
  if (const Json* reference = member(schema, "$ref"); reference != nullptr && reference->is_string()) {
    const Json* target = referred(root, reference->get<std::string>());
    return target == nullptr ? out : kinds_of_schema(root, *target, depth - 1);
  }
  if (const Json* type = member(schema, "type")) {
    if (type->is_string()) return kind_named(type->get<std::string>());
    if (type->is_array()) {
      for (const Json& one : *type) {
        if (one.is_string()) out.add(kind_named(one.get<std::string>()));
      }
      return out;
    }
  }
  if (const Json* value = member(schema, "const")) return kind_of(*value);
  if (const Json* values = member(schema, "enum"); values != nullptr && values->is_array()) {
    for (const Json& value : *values) out.add(kind_of(value));
    return out;
  }
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    const Json* schemas = member(schema, name);
    if (schemas == nullptr || !schemas->is_array()) continue;
    for (const Json& one : *schemas) {
      const Kinds kinds = kinds_of_schema(root, one, depth - 1);
      if (kinds.empty() && name != std::string_view("allOf")) return {};  // one that may be anything
      out.add(kinds);
    }
    return out;
  }
  if (member(schema, "properties") != nullptr) return Kinds::kObject;
  if (member(schema, "items") != nullptr) return Kinds::kArray;
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

Kinds kinds_of(const Json* parameters, std::string_view parameter) {
  if (parameters == nullptr) return Kinds::all();
  const Json* properties = member(*parameters, "properties");
  const Json* schema = properties == nullptr ? nullptr : member(*properties, std::string(parameter).c_str());
  if (schema == nullptr) return Kinds::all();
  const Kinds kinds = kinds_of_schema(*parameters, *schema, kDepth);
  return kinds.empty() ? Kinds::all() : kinds;
}

bool may_be_other_than_string(Kinds kinds, char first) {
  if (!kinds.has(Kinds::kString)) return true;
  if (is_space(first)) return kinds != Kinds::kString;
  const auto is_one_of = [&](std::string_view bytes) { return bytes.find(first) != std::string_view::npos; };
  return (kinds.has(Kinds::kNumber) && is_one_of("-0123456789")) ||
         (kinds.has(Kinds::kBoolean) && is_one_of("tTfF")) || (kinds.has(Kinds::kNull) && is_one_of("nN")) ||
         (kinds.has(Kinds::kArray) && is_one_of("[(")) || (kinds.has(Kinds::kObject) && first == '{');
}

std::string json_of_text(std::string_view text, Kinds kinds) {
  const std::string_view value = trimmed(text);
  const std::string word = value.size() < 6 ? lower(value) : "";
  if (kinds.has(Kinds::kNull) && (word == "null" || word == "none")) return "null";
  if (kinds.has(Kinds::kBoolean) && (word == "true" || word == "false")) return word;
  if (kinds.has(Kinds::kNumber) && is_json_number(value)) return std::string(value);
  if ((kinds.has(Kinds::kObject) && value.starts_with('{')) ||
      (kinds.has(Kinds::kArray) && (value.starts_with('[') || value.starts_with('(')))) {
    if (const std::optional<std::string> json = json_of_literal(value)) return *json;
  }
  return '"' + escaped(text) + '"';
}

}  // namespace penstock::formats
