// Carries the events of one request to its HTTP exchange: as a stream of named events or as one message.
// Called by serve's threads, one call at a time; never blocks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/anthropic/content.h"
#include "api/anthropic/stream.h"
#include "chat/event.h"
#include "http/exchange.h"

namespace penstock::api::anthropic {

struct AnswerOptions {
  std::string id;  // "msg_..."
  bool stream = false;
  bool shows_thinking = true;
  http::StreamOptions stream_options;
  std::vector<http::Header> headers;  // put on whatever is answered
};

class Answer : public chat::EventSink {
 public:
  Answer(std::shared_ptr<http::Exchange> exchange, std::shared_ptr<const Signer> signer,
         AnswerOptions options);

  void on_event(chat::Event event) override;

 private:
  void on(const chat::Started& started);
  void on(const chat::Finished& finished) { finished_ = finished; }
  void on(const chat::Done& done);
  void on(const chat::Failure& failure);
  template <class Event>
  void on(const Event& event) {
    content_.add(event);
  }
  void respond_whole(const chat::Done& done);

  const std::shared_ptr<http::Exchange> exchange_;
  const std::shared_ptr<const Signer> signer_;
  AnswerOptions options_;
  std::string model_;
  std::shared_ptr<http::Stream> stream_;
  WholeContent whole_;
  StreamContent frames_;
  Content content_;
  chat::Finished finished_;
};

}  // namespace penstock::api::anthropic
