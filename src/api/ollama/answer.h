// Carries the events of one request to its HTTP exchange: as lines of JSON or as one object. Called by
// serve's threads, one call at a time; never blocks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "api/ollama/encode.h"
#include "api/whole_choice.h"
#include "chat/event.h"
#include "http/exchange.h"

namespace penstock::api::ollama {

struct AnswerOptions {
  bool stream = true;
  bool shows_reasoning = true;
  bool logprobs = false;
  std::vector<http::Header> headers;  // put on whatever is answered
  std::function<void()> on_started;   // the model is held now
};

class Answer : public chat::EventSink {
 public:
  Answer(std::shared_ptr<http::Exchange> exchange, Encoder encoder, AnswerOptions options);

  void on_event(chat::Event event) override;

 private:
  using Clock = std::chrono::steady_clock;

  void on(const chat::Started& started);
  void on(chat::TextDelta& delta);
  void on(chat::ReasoningDelta& delta);
  void on(chat::ToolCallStarted& started) { choice_.add(std::move(started)); }
  void on(chat::ToolCallDelta& delta) { choice_.add(std::move(delta)); }
  void on(chat::ToolCallFinished& finished);
  void on(chat::Finished& finished) { finished_ = std::move(finished); }
  void on(const chat::Done& done);
  void on(const chat::Failure& failure);
  void write(const base::Json& object);
  void write_said(Said said);
  Said whole();

  const std::shared_ptr<http::Exchange> exchange_;
  const Encoder encoder_;
  AnswerOptions options_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point started_;
  std::shared_ptr<http::Stream> stream_;
  WholeChoice choice_;  // in a stream: its calls only
  chat::Finished finished_;
};

}  // namespace penstock::api::ollama
