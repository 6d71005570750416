#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::text {
namespace {

using base::Json;

std::string render(const std::string& source, const Json& context = Json::object(),
                   const TemplateSpecials& specials = {}) {
  return ChatTemplate(source, specials).render(context, 1'783'177'567);  // 2026-07-04 15:06:07
}

Json one_message(const Json& fields) {
  return {{"messages", Json::array({fields})}};
}

struct Case {
  std::string source;
  std::string want;
};

// CT-10: features of Python and Jinja2 that templates use.
TEST(ChatTemplate, PythonFeatures) {
  const std::vector<Case> cases = {
      {"{{ [1, 2, 3][::-1] }}", "[3, 2, 1]"},
      {"{% for i in range(3, -1, -1) %}{{ i }}{% endfor %}", "3210"},
      {"{{ '  a b '.strip() }}|{{ 'a,b'.split(',')[1] }}|{{ 'xay'.rsplit('a', 1)[-1] }}", "a b|b|y"},
      {"{% set ns = namespace(x=1 if true else 2) %}{% set ns.x = ns.x + 1 %}{{ ns.x }}", "2"},
      {"{% generation %}a{% endgeneration %}b", "ab"},
      {"{% for x in ['a', 'b'] %}{{ loop.previtem if loop.previtem is defined else '-' }}{% endfor %}", "-a"},
      {"{{ {} is mapping }}{{ none is iterable }}{{ 'a' is iterable }}{{ 1e-7 is number }}",
       "TrueFalseTrueTrue"},
      {"{{ strftime_now('%d %b %Y') }}", "04 Jul 2026"},
      {"{{ {'a': none, 'b': [1.0, 'x']} }}", "{'a': None, 'b': [1.0, 'x']}"},
      {"{{ 'a\nb\n' | indent(2) }}|", "a\n  b\n|"},
      {"{{ 'abc'.removeprefix('a') }}{{ 'abc'.partition('b')[2] }}", "bcc"},
      {"{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}", "a=1"},
      {"{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}", "TrueTrueFalse"},
      {"{%- if true %}\n  x\n  {%- endif %}\n", "  x"},
  };
  for (const Case& c : cases) EXPECT_EQ(render(c.source), c.want) << c.source;
}

// CT-11, CT-12: Python's spacing, no HTML escapes, the order of keys kept.
TEST(ChatTemplate, ToJsonAsPythonWritesIt) {
  const Json context = {{"x",
                         {{"z", "<a&b>'\"\n"},
                          {"a", {1, 2.5, 1e-05, nullptr, true}},
                          {"e", Json::object()},
                          {"u", "\xE6\xBC\xA2"}}}};
  EXPECT_EQ(
      render("{{ x | tojson }}", context),
      "{\"z\": \"<a&b>'\\\"\\n\", \"a\": [1, 2.5, 1e-05, null, true], \"e\": {}, \"u\": \"\xE6\xBC\xA2\"}");
  EXPECT_EQ(render("{{ x.a | tojson(separators=(',', ':')) }}", context), "[1,2.5,1e-05,null,true]");
  EXPECT_EQ(render("{{ x.u | tojson(ensure_ascii=True) }}", context), "\"\\u6f22\"");
  EXPECT_EQ(render("{{ {'b': 1, 'a': [2]} | tojson(indent=2, sort_keys=True) }}"),
            "{\n  \"a\": [\n    2\n  ],\n  \"b\": 1\n}");
}

// CT-15
TEST(ChatTemplate, HostileTemplatesEnd) {
  EXPECT_EQ(render("{{ [1] | tojson(indent=256) }}").size(), 261U);
  EXPECT_THROW(render("{{ [1] | tojson(indent=1000000000) }}"), base::Error);
  EXPECT_THROW(render("{{ 'x' | indent(1000000000) }}"), base::Error);
  EXPECT_THROW(render("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
               base::Error);
  EXPECT_THROW(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), base::Error);
}

TEST(ChatTemplate, ErrorsCarryTheTemplatesWords) {
  const ChatTemplate chat_template("{{ raise_exception('Only user and assistant roles!') }}", {});
  try {
    chat_template.render(Json::object());
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kInvalidRequest);
    EXPECT_EQ(error.text(), "Only user and assistant roles!");
  }
  try {
    render("{{ 'a' + none }}");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_NE(error.text().find("line 1 of the chat template"), std::string::npos) << error.what();
  }
  try {
    ChatTemplate("{% if %}", {});
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kCorrupt);
  }
}

// CT-09: an assistant message that only calls tools has no content.
TEST(ChatTemplate, NullContentIsAbsent) {
  const Json message = {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array()}};
  EXPECT_EQ(render("{{ messages[0].content is defined }}{{ messages[0].content }}|", one_message(message)),
            "False|");
}

TEST(ChatTemplate, ReasoningHasThreeNames) {
  const std::string source =
      "{% set m = messages[0] %}{{ m.reasoning_content }}|{{ m.thinking }}|{{ m.reasoning }}";
  EXPECT_EQ(render(source, one_message({{"role", "assistant"}, {"reasoning", "r"}})), "r|r|r");
  EXPECT_EQ(
      render(source, one_message({{"role", "assistant"}, {"thinking", "t"}, {"reasoning_content", nullptr}})),
      "t|t|");
}

// CT-18: the same template with and without the turn to be generated.
TEST(ChatTemplate, GenerationPromptAndVariables) {
  const std::string source =
      "{{ bos_token }}{{ messages[0].content }}{% if add_generation_prompt %}<a>{% endif %}"
      "{% if enable_thinking is defined and not enable_thinking %}!{% endif %}{{ eos_token }}";
  Json context = one_message({{"role", "assistant"}, {"content", "1, 2,"}});
  TemplateSpecials specials;
  specials.bos = "<s>";
  EXPECT_EQ(render(source, context, specials), "<s>1, 2,");
  context["add_generation_prompt"] = true;
  context["chat_template_kwargs"] = {{"enable_thinking", false}, {"eos_token", "</s>"}};
  EXPECT_EQ(render(source, context, specials), "<s>1, 2,<a>!</s>");
}

// CT-25
TEST(ChatTemplate, UnknownMessageKeysAreAccepted) {
  const Json message = {
      {"role", "user"}, {"content", "hi"}, {"name", "bob"}, {"x-extra", {1, {{"y", nullptr}}}}};
  EXPECT_EQ(render("{{ messages[0].content }}{{ messages[0].name }}", one_message(message)), "hibob");
}

}  // namespace
}  // namespace penstock::text
