#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "api/openai/decode.h"
#include "base/error.h"

namespace penstock::api::openai {
namespace {

using base::Code;
using base::Error;
using base::Json;
using chat::Constraint;
using Kind = Constraint::Kind;

constexpr size_t kMostChoices = 10000;

/// A schema as an object, or as the text of one.
std::string schema_text(const Reader& reader, std::string_view name, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object() && !value.is_boolean()) reader.reject(name, "a JSON schema");
  return value.dump();
}

std::string lark_text(const Reader& reader, std::string_view name) {
  std::string text = reader.string(name).value_or("");
  if (text.find("::=") != std::string::npos) {
    throw Error(Code::kUnsupported,
                "[api.decode] expected " + reader.path(name) + " in Lark; got GBNF, which is not read here",
                reader.path(name));
  }
  return text;
}

std::string choice_text(const Reader& reader, std::string_view name, const Json& list) {
  const bool is_good = list.is_array() && !list.empty() && list.size() <= kMostChoices &&
                       std::all_of(list.begin(), list.end(), [](const Json& text) {
                         return text.is_string() && !text.get_ref<const std::string&>().empty();
                       });
  if (!is_good) reader.reject(name, "a list of up to 10000 texts, none of them empty");
  return list.dump();
}

/// The one of several fields that is there.
class Found {
 public:
  void set(Kind kind, std::string text, const std::string& field) {
    if (constraint_) {
      throw Error(Code::kInvalidRequest,
                  "[api.decode] expected one of " + constraint_->field + " and " + field + "; got both", field);
    }
    constraint_ = Constraint{kind, std::move(text), false, field};
  }
  void set_strict(bool strict) { constraint_->strict = strict; }
  std::optional<Constraint> take() { return std::move(constraint_); }

 private:
  std::optional<Constraint> constraint_;
};

void read_json_schema(const Reader& format, Found& found) {
  const Json* value = format.find("json_schema");
  if (value == nullptr) format.reject("json_schema", "an object with a schema");
  const Reader fields(*value, format.path("json_schema."));
  constexpr size_t kMostNameBytes = 64;
  if (const auto name = fields.string("name"); name && (name->empty() || name->size() > kMostNameBytes)) {
    fields.reject("name", "1 to 64 characters");
  }
  fields.string("description");
  const Json* schema = fields.find("schema");
  if (schema == nullptr || !schema->is_object()) fields.reject("schema", "a JSON schema, an object");
  found.set(Kind::kJsonSchema, schema->dump(), fields.path("schema"));
  found.set_strict(fields.boolean("strict").value_or(false));
}

void read_response_format(const Reader& reader, Found& found) {
  const Json* value = reader.find("response_format");
  if (value == nullptr) return;
  const Reader format(*value, "response_format.");
  const auto type = format.string("type");
  if (type == "text") return;
  if (type == "json_schema") return read_json_schema(format, found);
  if (type != "json_object") {
    reader.reject("response_format", "an object whose type is text, json_object or json_schema");
  }
  if (const Json* schema = format.find("schema")) {
    return found.set(Kind::kJsonSchema, schema_text(format, "schema", *schema), format.path("schema"));
  }
  found.set(Kind::kJsonObject, {}, "response_format");
}

/// Of one object, under the names that vLLM gives them there.
void read_kinds(const Reader& reader, const std::string& prefix, Found& found) {
  const auto name = [&](const char* kind) { return prefix + kind; };
  if (const Json* schema = reader.find(name("json"))) {
    found.set(Kind::kJsonSchema, schema_text(reader, name("json"), *schema), reader.path(name("json")));
  }
  if (auto regex = reader.string(name("regex"))) {
    found.set(Kind::kRegex, std::move(*regex), reader.path(name("regex")));
  }
  if (const Json* list = reader.find(name("choice"))) {
    found.set(Kind::kChoice, choice_text(reader, name("choice"), *list), reader.path(name("choice")));
  }
  if (reader.find(name("grammar")) != nullptr) {
    found.set(Kind::kLark, lark_text(reader, name("grammar")), reader.path(name("grammar")));
  }
}

void read_structured_outputs(const Reader& reader, Found& found) {
  const Json* value = reader.find("structured_outputs");
  if (value == nullptr) return;
  const Reader fields(*value, "structured_outputs.");
  constexpr std::string_view kNames[] = {"json", "regex", "choice", "grammar", "json_object"};
  for (const auto& [name, one] : value->items()) {
    if (!one.is_null() && std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) {
      throw Error(Code::kUnsupported,
                  "[api.decode] expected json, regex, choice, grammar or json_object in structured_outputs; got " +
                      name,
                  fields.path(name));
    }
  }
  read_kinds(fields, "", found);
  if (fields.boolean("json_object").value_or(false)) {
    found.set(Kind::kJsonObject, {}, fields.path("json_object"));
  }
}

}  // namespace

void read_constraint(const Reader& reader, chat::Request& request) {
  Found found;
  read_response_format(reader, found);
  read_structured_outputs(reader, found);
  read_kinds(reader, "guided_", found);
  if (const Json* schema = reader.find("json_schema")) {
    found.set(Kind::kJsonSchema, schema_text(reader, "json_schema", *schema), "json_schema");
  }
  request.constraint = found.take();
}

}  // namespace penstock::api::openai
