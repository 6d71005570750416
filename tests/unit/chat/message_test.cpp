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

TEST(Message, CT_03_late_system_messages_move_to_the_front) {
  const std::vector<Message> late = {make("system", "one"), make("user", "hi"), make("system", "two")};
  EXPECT_TRUE(has_late_system(late));
  const auto merged = with_merged_system(late);
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].text(), "one\n\ntwo");
  EXPECT_EQ(merged[1].text(), "hi");
  EXPECT_FALSE(has_late_system(merged));
  EXPECT_FALSE(has_late_system({}));
}

}  // namespace
}  // namespace penstock::chat
