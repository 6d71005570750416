#include "api/text_frame.h"

#include <gtest/gtest.h>

#include "api/openai/encode.h"
#include "http/sse.h"

namespace penstock::api::openai {
namespace {

using base::Json;

TEST(TextFrame, has_the_bytes_of_the_whole_document) {
  const AnswerHead plain = {"chatcmpl-1", 7, "org/\"the text of a delta\"", false};
  AnswerHead with_usage = plain;
  with_usage.include_usage = true;
  for (const AnswerHead& head : {plain, with_usage}) {
    const std::unique_ptr<Encoder> encoders[] = {make_chat_encoder(false), make_completion_encoder(false, 3)};
    for (const auto& encoder : encoders) {
      TextFrame frame([&](const std::string& text) { return encoder->delta(head, {2, text, {}}); });
      for (const std::string text :
           {"word", " word", "", "\n", "a\r\nb\tc", "\"quoted\"", "back\\slash", "\x01\x1f\x7f",
            "caf\xC3\xA9", "\xE2\x82\xAC\xF0\x9F\x98\x80", "/</script>", "the text of a delta"}) {
        const Json chunk = encoder->delta(head, {2, text, {}});
        EXPECT_EQ(frame.event(text), http::sse_frame(chunk.dump())) << text;
      }
    }
  }
}

TEST(TextFrame, has_the_name_of_its_event) {
  TextFrame frame([](const std::string& text) { return Json{{"text", text}}; }, "delta");
  EXPECT_EQ(frame.event("a"), "event: delta\ndata: {\"text\":\"a\"}\n\n");
}

TEST(TextFrame, replaces_bytes_that_are_no_text) {
  const auto encoder = make_chat_encoder(false);
  const AnswerHead head = {"chatcmpl-1", 7, "m", false};
  TextFrame frame([&](const std::string& text) { return encoder->delta(head, {0, text, {}}); });
  const Json chunk = encoder->delta(head, {0, "a\xF0\x9F", {}});
  EXPECT_EQ(frame.event("a\xF0\x9F"),
            http::sse_frame(chunk.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

}  // namespace
}  // namespace penstock::api::openai
