#include "chat/message.h"

#include <gtest/gtest.h>

namespace penstock::chat {
namespace {

Message make(std::string role, std::string text) {
  Message message;
  message.role = std::move(role);
  message.content = {Part{std::move(text)}};
  return message;
}

TEST(Message, CT_08_parts_are_joined_to_one_text) {
  Message message = make("system", "a");
  message.content->push_back({"b"});
  EXPECT_EQ(to_template_json(message).dump(), R"({"role":"system","content":"ab"})");
}

TEST(Message, CT_09_null_content_beside_tool_calls_is_an_empty_text) {
  Message message;
  message.role = "assistant";
  message.tool_calls = {{"call_1", "f", R"({"b":1,"a":2})"}};
  EXPECT_EQ(to_template_json(message).dump(),
            R"({"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function",)"
            R"("function":{"name":"f","arguments":{"b":1,"a":2}}}]})");
}

TEST(Message, TC_37_broken_arguments_stay_the_text_they_are) {
  Message message;
  message.role = "assistant";
  message.tool_calls = {{"call_1", "f", "{\"bad"}, {"call_2", "g", ""}};
  const base::Json calls = to_template_json(message)["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["arguments"], "{\"bad");
  EXPECT_EQ(calls[1]["function"]["arguments"], base::Json::object());
}

using Turns = std::vector<std::pair<std::string, std::string>>;

Turns turns_of(const std::vector<Message>& messages) {
  Turns turns;
  for (const Message& message : messages) turns.emplace_back(message.role, message.text());
  return turns;
}

TEST(Message, CT_03_late_system_messages_move_to_the_front) {
  const auto merged = merged_turns({make("system", "one"), make("user", "hi"), make("system", "two")});
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(turns_of(*merged), (Turns{{"system", "one\n\ntwo"}, {"user", "hi"}}));
  const auto moved = merged_turns({make("user", "hi"), make("system", "one")});
  ASSERT_TRUE(moved.has_value());
  EXPECT_EQ(turns_of(*moved), (Turns{{"system", "one"}, {"user", "hi"}}));
}

TEST(Message, CT_04_neighbouring_messages_of_one_role_become_one) {
  const auto merged =
      merged_turns({make("user", "A"), make("user", "B"), make("assistant", "x"), make("assistant", "y"),
                    make("user", "C"), make("system", "S"), make("user", "D")});
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(turns_of(*merged),
            (Turns{{"system", "S"}, {"user", "A\n\nB"}, {"assistant", "x\n\ny"}, {"user", "C\n\nD"}}));
}

TEST(Message, CT_04_a_call_stays_where_it_is) {
  Message call = make("assistant", "x");
  call.tool_calls = {{"id", "f", "{}"}};
  EXPECT_FALSE(merged_turns({make("user", "A"), call, make("assistant", "y")}));
  EXPECT_FALSE(merged_turns({make("user", "A"), make("assistant", "y"), call}));
}

TEST(Message, nothing_to_merge_is_said) {
  EXPECT_FALSE(merged_turns({}).has_value());
  EXPECT_FALSE(
      merged_turns({make("system", "S"), make("user", "A"), make("assistant", "x"), make("user", "B")}));
  Message ann = make("user", "A"), bob = make("user", "B");
  ann.name = "ann";
  bob.name = "bob";
  EXPECT_FALSE(merged_turns({ann, bob})) << "who said it would be lost";
}

}  // namespace
}  // namespace penstock::chat
