// Carries the events of one request to its HTTP exchange: as a stream of SSE chunks or as one object. Called
// by serve's threads, one call at a time; never blocks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/openai/encode.h"
#include "api/text_frame.h"
#include "chat/event.h"
#include "http/exchange.h"

namespace penstock::api::openai {

struct AnswerOptions {
  AnswerHead head;
  bool stream = false;
  http::StreamOptions stream_options;
  std::vector<http::Header> headers;  // put on whatever is answered
};

class Answer : public chat::EventSink {
 public:
  Answer(std::shared_ptr<http::Exchange> exchange, std::unique_ptr<Encoder> encoder, AnswerOptions options);

  void on_event(chat::Event event) override;

 private:
  void on(const chat::Started& started);
  void on(chat::TextDelta& delta);
  void on(chat::ReasoningDelta& delta);
  void on(chat::ToolCallStarted& started);
  void on(chat::ToolCallDelta& delta);
  void on(chat::ToolCallFinished& finished);
  void on(chat::Finished& finished);
  void on(const chat::Done& done);
  void on(const chat::Failure& failure);
  WholeChoice& choice(int32_t index) { return choices_[static_cast<size_t>(index)]; }
  void write(const base::Json& chunk);
  void write_text(const chat::TextDelta& delta);
  void respond_whole(const chat::Done& done);

  const std::shared_ptr<http::Exchange> exchange_;
  const std::unique_ptr<Encoder> encoder_;
  AnswerOptions options_;
  std::shared_ptr<http::Stream> stream_;
  std::vector<WholeChoice> choices_;
  std::vector<std::optional<TextFrame>> frames_;  // of a stream, by choice
  size_t n_finished_ = 0;
  // The last choice's finish waits for the receipt, which comes right after it.
  std::optional<chat::Finished> last_finished_;
};

}  // namespace penstock::api::openai
