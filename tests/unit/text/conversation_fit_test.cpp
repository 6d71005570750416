#include "text/conversation_fit.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::text {
namespace {

using base::Json;

constexpr char kStrict[] =
    "{% for m in messages %}"
    "{% if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the "
    "beginning.') }}"
    "{% endif %}"
    "{% if not loop.first and m.role == loop.previtem.role %}{{ raise_exception('Roles must alternate.') "
    "}}{% endif %}"
    "[{{ m.role }}:{{ m.content }}]{% endfor %}";
constexpr char kParts[] =
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{{ p.text }}+{% endfor %}{% endif %}{% endfor %}";

Json message(const std::string& role, const Json& content) {
  return {{"role", role}, {"content", content}};
}

// CT-03: a late system message joins the first; CT-04: neighbouring user turns become one.
TEST(ConversationFit, MergesWhatTheTemplateRefuses) {
  const ChatTemplate chat_template(kStrict, {});
  const Json context = {{"messages",
                         {message("system", "S1"), message("user", "A"), message("user", "B"),
                          message("system", "S2"), message("user", "C")}}};
  EXPECT_THROW(chat_template.render(context), base::Error);
  EXPECT_EQ(render_fitted(chat_template, context), "[system:S1\n\nS2][user:A\n\nB\n\nC]");
}

TEST(ConversationFit, LeavesAloneWhatTheTemplateTakes) {
  const ChatTemplate chat_template("{% for m in messages %}[{{ m.content }}]{% endfor %}", {});
  const Json context = {{"messages", {message("user", "A"), message("system", "S"), message("user", "B")}}};
  EXPECT_EQ(render_fitted(chat_template, context), "[A][S][B]");
}

TEST(ConversationFit, TheFirstRefusalIsTheOneReported) {
  const ChatTemplate chat_template("{{ raise_exception('Never with ' ~ messages|length) }}", {});
  const Json context = {{"messages", {message("user", "A"), message("user", "B")}}};
  try {
    render_fitted(chat_template, context);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kInvalidRequest);
    EXPECT_EQ(error.text(), "Never with 2");
  }
}

TEST(ConversationFit, ToolTurnsAreNotMerged) {
  Json call = message("user", "A");
  call["tool_calls"] = Json::array();
  Json messages = {message("user", "x"), call, message("user", "B")};
  const Json before = messages;
  merge_turns(messages);
  EXPECT_EQ(messages, before);
}

// CT-08: system text given as blocks is joined for a template that reads only texts.
TEST(ConversationFit, JoinsTextParts) {
  const Json parts = {{{"type", "text"}, {"text", "one"}}, {{"type", "text"}, {"text", "two"}}};
  const Json context = {{"messages", {message("system", parts), message("user", "hi")}}};
  const ChatTemplate strict(kStrict, {});
  EXPECT_FALSE(takes_content_parts(strict));
  EXPECT_EQ(render_fitted(strict, context), "[system:one\ntwo][user:hi]");
  const ChatTemplate with_parts(kParts, {});
  EXPECT_TRUE(takes_content_parts(with_parts));
  EXPECT_EQ(render_fitted(with_parts, context), "one+two+hi");
}

TEST(ConversationFit, PartsWithImagesAreLeftAlone) {
  Json messages = {message("user", {{{"type", "text"}, {"text", "x"}}, {{"type", "image_url"}}})};
  const Json before = messages;
  join_text_parts(messages);
  EXPECT_EQ(messages, before);
}

}  // namespace
}  // namespace penstock::text
