#include "serve/script.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::serve {
namespace {

TEST(Script, reads_what_the_documentation_shows) {
  const Script script = parse_script(R"({
    "model": "m", "names": ["a"], "context_length": 100, "max_num_seqs": 2, "max_queue": 3,
    "special_tokens": ["<|im_start|>"], "defaults": {"temperature": 0.5, "top_k": 7},
    "replies": [{"match": "hi", "pieces": ["x", {"bytes": [240, 159]}], "repeat": 2, "delays_ms": [1, 2],
                 "logprobs": [-1, -2], "top": [[["x", -1], ["y", -3]]], "group": 4, "finish": "length"}]})");
  EXPECT_EQ(script.model, "m");
  EXPECT_EQ(script.names, std::vector<std::string>{"a"});
  EXPECT_EQ(script.defaults.temperature, 0.5f);
  EXPECT_EQ(script.defaults.top_k, 7);
  ASSERT_EQ(script.replies.size(), 1u);
  const ScriptedReply& reply = script.replies[0];
  ASSERT_EQ(reply.pieces.size(), 4u);
  EXPECT_EQ(reply.pieces[3].bytes, "\xF0\x9F");
  EXPECT_EQ(reply.pieces[1].delay_ms, 2);
  EXPECT_EQ(reply.pieces[1].logprob, -2);
  ASSERT_EQ(reply.pieces[0].top.size(), 2u);
  EXPECT_EQ(reply.pieces[0].top[1].first, "y");
  EXPECT_EQ(reply.end, ScriptedEnd::kLength);
}

TEST(Script, a_fault_is_named) {
  const auto message_of = [](const char* text) {
    try {
      parse_script(text);
    } catch (const base::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message_of(R"({"replies": []})").find("replies"), std::string::npos);
  EXPECT_NE(message_of(R"({"replies": [{"peices": []}]})").find("peices"), std::string::npos);
  EXPECT_NE(message_of(R"({"replies": [{"finish": "later"}]})").find("finish"), std::string::npos);
  EXPECT_NE(message_of(R"({"replies": [{"pieces": [{"bytes": [256]}]}]})").find("bytes"), std::string::npos);
  EXPECT_NE(message_of(R"({"replies": [{"group": "x"}]})").find("group"), std::string::npos);
}

}  // namespace
}  // namespace penstock::serve
