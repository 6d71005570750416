// Llama 3: {"name": "f", "parameters": {...}} and nothing before it, maybe behind <|python_tag|>; several are
// parted by semicolons. <|python_tag|>f.call(k="v") for tools that the model knows by itself.
// Functionary 3.1 and Llama 3 with a prompt of its own: <function=f>{...}</function>.
#include "formats/json_call.h"
#include "formats/json_value.h"
#include "formats/list.h"
#include "formats/python_call.h"

namespace penstock::formats {
namespace {

constexpr size_t kNameBytes = 256;

Step read_python_tag(Reading& r, const Opener&) {
  co_await skip_space(r.in);
  if (!co_await r.in.more()) co_return false;
  if (r.in.peek() != '{' && r.in.peek() != '[') co_return co_await read_python_call(r, ".call");
  const bool are_calls = co_await read_json_calls(r, OtherMembers::kPassedOver);
  if (!are_calls) co_return false;
  co_await skip_space(r.in);
  co_await r.in.accept(";");
  co_return true;
}

Step read_function(Reading& r, const Opener& opener) {
  std::string name;
  const bool is_name = co_await read_until(r.in, ">", kNameBytes, name);
  if (!is_name) co_return false;
  const bool is_call = co_await read_json_arguments(r, name, "");
  if (!is_call) co_return false;
  co_await skip_space(r.in);
  co_await r.in.accept(opener.closer);
  co_return true;
}

}  // namespace

const ToolFormat kLlama = {
    .name = "llama3",
    .found_by = {{"\"parameters\": "}},
    .spelled = {"<|python_tag|>"},
    .openers = {{"<|python_tag|>", read_python_tag},
                {"<function=", read_function, "</function>"},
                {"{", read_bare_json, "", Where::kAnswerStart},
                {"[", read_bare_json, "", Where::kAnswerStart}},
    .shape = {.call = "{\"name\": \"$name\", \"parameters\": $arguments}", .between = "; "},
};

const ToolFormat kFunctionTag = {
    .name = "function_tag",
    .found_by = {{"<function="}},
    .spelled = {"<|python_tag|>"},
    .openers = {{"<function=", read_function, "</function>"}, {"<|python_tag|>", read_python_tag}},
    .shape = {.call = "<function=$name>$arguments</function>", .trigger = "<function="},
};

}  // namespace penstock::formats
