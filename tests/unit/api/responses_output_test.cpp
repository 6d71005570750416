// The state machine that makes items of chat events, and its stream of changes.
#include <random>
#include <variant>

#include <gtest/gtest.h>

#include "api/responses/event_log.h"
#include "api/responses/output.h"

namespace penstock::api::responses {
namespace {

using base::Json;
using chat::Event;

chat::TextDelta text(const std::string& text) {
  return {0, text, {}};
}
chat::ReasoningDelta thought(const std::string& text) {
  return {0, text, {}};
}
chat::ToolCallStarted call(int32_t number, const std::string& name) {
  return {0, number, "id" + std::to_string(number), false, name};
}
chat::ToolCallDelta arguments(int32_t number, const std::string& json) {
  return {0, number, json};
}
chat::ToolCallFinished called(int32_t number) {
  return {0, number};
}

struct Told {
  std::vector<Json> items;   // of the end
  std::vector<Json> events;  // {"type", ...}
};

/// What is made of the events, with ids that count.
Told made_of(const std::vector<Event>& events, bool is_whole, const ToolNames& names = {}, bool tells = true,
             OutputOptions options = {}) {
  Told told;
  int n = 0;
  Output output(
      names, options, [&n](std::string_view prefix) { return std::string(prefix) + std::to_string(n++); },
      tells ? Output::Tell([&told](std::string_view type, Json fields) {
        Json event = {{"type", type}};
        event.update(fields);
        told.events.push_back(std::move(event));
      })
            : nullptr);
  for (const Event& event : events) {
    std::visit(
        [&](const auto& value) {
          if constexpr (requires { output.add(value); }) output.add(value);
        },
        event);
  }
  output.finish(is_whole);
  told.items = output.items();
  return told;
}

std::vector<std::string> types_of(const std::vector<Json>& events) {
  std::vector<std::string> types;
  for (const Json& event : events)
    types.push_back(event["type"].get<std::string>().substr(sizeof("response.") - 1));
  return types;
}

/// What a client knows that follows the stream.
std::vector<Json> followed(const std::vector<Json>& events) {
  std::vector<Json> items;
  for (const Json& event : events) {
    const auto type = event["type"].get<std::string>();
    const auto index = event["output_index"].get<size_t>();
    if (type == "response.output_item.added") {
      EXPECT_EQ(index, items.size());
      EXPECT_EQ(event["item"]["status"], "in_progress");
      items.push_back(event["item"]);
      continue;
    }
    Json& item = items.at(index);
    if (type == "response.output_item.done") {
      // The done item must be what the deltas gave, but for its status.
      Json seen = item;
      seen["status"] = event["item"]["status"];
      EXPECT_EQ(seen, event["item"]);
      item = event["item"];
      continue;
    }
    EXPECT_EQ(event["item_id"], item["id"]) << type;
    if (type == "response.content_part.added") item["content"].push_back(event["part"]);
    if (type == "response.output_text.delta" || type == "response.reasoning_text.delta") {
      Json& part = item["content"].at(event["content_index"].get<size_t>());
      part["text"] = part["text"].get<std::string>() + event["delta"].get<std::string>();
    }
    if (type == "response.function_call_arguments.delta")
      item["arguments"] = item["arguments"].get<std::string>() + event["delta"].get<std::string>();
    if (type == "response.output_text.done" || type == "response.reasoning_text.done") {
      EXPECT_EQ(event["text"], item["content"].at(0)["text"]);
    }
    if (type == "response.content_part.done") {
      EXPECT_EQ(event["part"], item["content"].at(0));
    }
    if (type == "response.function_call_arguments.done") {
      EXPECT_EQ(event["arguments"], item["arguments"]);
    }
  }
  return items;
}

TEST(Output, OA_18_events_come_in_the_official_order) {
  const Told told = made_of({text("Hel"), text("lo")}, true);
  EXPECT_EQ(types_of(told.events),
            (std::vector<std::string>{"output_item.added", "content_part.added", "output_text.delta",
                                      "output_text.delta", "output_text.done", "content_part.done",
                                      "output_item.done"}));
  ASSERT_EQ(told.items.size(), 1u);
  EXPECT_EQ(told.items[0],
            Json::parse(R"({"id": "msg_0", "type": "message", "status": "completed", "role": "assistant",
      "content": [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]})"));
}

TEST(Output, RS_10_reasoning_text_and_calls_are_items_in_their_order) {
  const Told told = made_of({thought("hm"), text("wait"), call(0, "crm__find"), arguments(0, "{\"a\":"),
                             arguments(0, "1}"), called(0), call(1, "f"), arguments(1, "{}"), called(1)},
                            true, {{"crm__find", {"crm", "find"}}});
  EXPECT_EQ(types_of(told.events), (std::vector<std::string>{"output_item.added",
                                                             "content_part.added",
                                                             "reasoning_text.delta",
                                                             "reasoning_text.done",
                                                             "content_part.done",
                                                             "output_item.done",
                                                             "output_item.added",
                                                             "content_part.added",
                                                             "output_text.delta",
                                                             "output_text.done",
                                                             "content_part.done",
                                                             "output_item.done",
                                                             "output_item.added",
                                                             "function_call_arguments.delta",
                                                             "function_call_arguments.delta",
                                                             "function_call_arguments.done",
                                                             "output_item.done",
                                                             "output_item.added",
                                                             "function_call_arguments.delta",
                                                             "function_call_arguments.done",
                                                             "output_item.done"}));
  ASSERT_EQ(told.items.size(), 4u);
  EXPECT_EQ(told.items[0],
            Json::parse(R"({"id": "rs_0", "type": "reasoning", "status": "completed", "summary": [],
      "content": [{"type": "reasoning_text", "text": "hm"}]})"));
  EXPECT_EQ(told.items[2], Json::parse(R"({"id": "fc_2", "type": "function_call", "status": "completed",
      "call_id": "call_id0", "name": "find", "namespace": "crm", "arguments": "{\"a\":1}"})"))
      << "TC-45: the group is put back";
  EXPECT_EQ(told.items[3]["name"], "f");
  EXPECT_FALSE(told.items[3].contains("namespace"));
}

TEST(Output, OA_19_what_was_cut_is_incomplete) {
  Told told = made_of({thought("I was just")}, false);
  ASSERT_EQ(told.items.size(), 1u);
  EXPECT_EQ(told.items[0]["type"], "reasoning");
  EXPECT_EQ(told.items[0]["status"], "incomplete");
  EXPECT_EQ(told.events.back()["item"]["status"], "incomplete");
  told = made_of({text("a"), call(0, "f"), arguments(0, "{\"a\":")}, false);
  EXPECT_EQ(told.items[0]["status"], "completed");
  EXPECT_EQ(told.items[1]["status"], "incomplete");
  told = made_of({call(0, "f"), arguments(0, "{\"a\":")}, true);
  EXPECT_EQ(told.items[0]["status"], "incomplete") << "a stop string can cut a call, too";
}

TEST(Output, a_whole_answer_has_a_message_or_a_call) {
  EXPECT_EQ(made_of({}, true).items.size(), 1u);
  EXPECT_EQ(made_of({}, true).items[0]["content"][0]["text"], "");
  EXPECT_EQ(made_of({thought("x")}, true).items.size(), 2u);
  EXPECT_EQ(made_of({call(0, "f"), called(0)}, true).items.size(), 1u);
  EXPECT_TRUE(made_of({}, false).items.empty());
}

TEST(Output, reasoning_is_carried_where_it_is_asked_for) {
  const Told told = made_of({thought("a"), thought("b")}, true, {}, true, {.carries_reasoning = true});
  EXPECT_EQ(told.items[0]["encrypted_content"], "penstock:ab");
  EXPECT_FALSE(made_of({thought("a")}, true).items[0].contains("encrypted_content"));
}

TEST(Output, an_item_in_the_making_is_shown_as_far_as_it_is) {
  const ToolNames names;
  Output output(
      names, {}, [](std::string_view prefix) { return std::string(prefix) + "1"; }, nullptr);
  EXPECT_TRUE(output.items().empty());
  output.add(text("half a"));
  EXPECT_EQ(output.items()[0]["status"], "in_progress");
  EXPECT_EQ(output.items()[0]["content"][0]["text"], "half a");
}

/// However the same answer is cut into events, the items are the same, told of or not, and a client that
/// follows the stream knows the same.
TEST(Output, items_do_not_depend_on_how_events_are_cut) {
  const std::string think = "let me see", say = "the answer is 42", json = R"({"q":"x","n":[1,2]})";
  const auto cut = [](const std::string& whole, std::mt19937& random, auto make, std::vector<Event>& out) {
    for (size_t at = 0; at < whole.size();) {
      const size_t length = 1 + random() % whole.size();
      out.push_back(make(whole.substr(at, length)));
      at += length;
    }
  };
  for (const bool is_whole : {true, false}) {
    const auto expected = made_of({thought(think), text(say), call(0, "f"), arguments(0, json), called(0),
                                   text(say), thought(think), call(1, "g"), arguments(1, json)},
                                  is_whole, {}, false);
    EXPECT_TRUE(expected.events.empty());
    for (uint32_t seed = 0; seed < 50; ++seed) {
      std::mt19937 random(seed);
      std::vector<Event> events;
      const auto args = [](int32_t number) {
        return [number](const std::string& part) { return arguments(number, part); };
      };
      cut(think, random, thought, events);
      cut(say, random, text, events);
      events.push_back(call(0, "f"));
      cut(json, random, args(0), events);
      events.push_back(called(0));
      cut(say, random, text, events);
      cut(think, random, thought, events);
      events.push_back(call(1, "g"));
      cut(json, random, args(1), events);
      const Told told = made_of(events, is_whole);
      EXPECT_EQ(told.items, expected.items) << seed;
      EXPECT_EQ(followed(told.events), expected.items) << seed;
    }
  }
}

TEST(EventLog, kept_events_come_back_from_any_number_on) {
  EventLog log(true);
  for (const char* type : {"response.created", "response.in_progress", "response.completed"})
    log.tell(type, {{"text", "a\nb"}});
  const std::string all = log.frames_after(-1);
  EXPECT_TRUE(
      all.starts_with("event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,"))
      << all;
  EXPECT_EQ(EventLog::frames_after(log.lines(), -1), all);
  for (int64_t after = 0; after < 3; ++after) {
    const std::string rest = log.frames_after(after);
    EXPECT_TRUE(all.ends_with(rest));
    EXPECT_EQ(rest.empty(), after == 2);
    EXPECT_EQ(EventLog::frames_after(log.lines(), after), rest);
  }
  EXPECT_EQ(log.next_line("x", Json::object()), "{\"type\":\"x\",\"sequence_number\":3}\n");
}

}  // namespace
}  // namespace penstock::api::responses
