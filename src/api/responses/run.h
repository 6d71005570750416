// One response that is being made: takes the events of its generation, builds the response object, tells its
// readers, and stores it before anyone hears that it has ended. Thread-safe; never blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/responses/event_log.h"
#include "api/responses/output.h"
#include "api/surface.h"
#include "base/json.h"
#include "chat/event.h"
#include "serve/response_store.h"

namespace penstock::api::responses {

struct RunOptions {
  std::string id;
  int64_t created = 0;  // unix seconds
  std::string model;
  base::Json settings;  // what the response says of its request
  ToolNames names;
  std::vector<base::Json> input;
  std::string previous_id;
  OutputOptions output;
  bool stream = false, store = true, background = false;
  http::StreamOptions stream_options;
  std::vector<http::Header> headers;  // put on whatever is answered
};

class Run : public chat::EventSink, public std::enable_shared_from_this<Run> {
 public:
  using OnEnd = std::function<void(const base::Json& object)>;

  Run(RunOptions options, ExchangePtr exchange, serve::ResponseStore& store);

  /// A background response is stored and may be asked for: its client is answered. Events that came before
  /// wait.
  void accept();

  void on_event(chat::Event event) override;

  /// The response as far as it is made.
  base::Json object() const;
  serve::StoredResponse record() const;

  /// Called when it has ended and is stored; at once where that is so. Must not call the run.
  void on_end(OnEnd on_end);

  /// Answers with its events after `starting_after` (-1: all), those to come included. Throws
  /// Error(kInvalidRequest) where they are not kept.
  void follow(const ExchangePtr& exchange, int64_t starting_after);

  const std::string& id() const { return options_.id; }
  bool is_background() const { return options_.background; }

 private:
  void handle(chat::Event& event);
  void on(const chat::Started& started);
  template <class Delta>
  void on(const Delta& delta) {
    output_.add(delta);
  }
  void on(const chat::Finished& finished);
  void on(const chat::Done& done);
  void on(const chat::Failure& failure);

  void begin(std::string_view status);
  void tell(std::string_view type, base::Json fields);
  void tell_response(std::string_view type);
  void end(std::string_view status, std::string_view event);
  void save(std::string_view event);
  void conclude(std::string_view event);
  void respond();
  void refuse(const base::Error& error);
  base::Json object_locked() const;
  serve::StoredResponse record_locked() const;

  RunOptions options_;
  serve::ResponseStore& store_;

  mutable std::mutex mutex_;
  ExchangePtr exchange_;  // until it is answered
  base::Json head_;       // the response object but for its output
  Output output_;
  EventLog log_;
  std::string status_;
  bool is_accepted_, has_started_ = false, is_cut_ = false, has_ended_ = false;
  std::vector<chat::Event> early_;
  std::vector<OnEnd> on_end_;
};

}  // namespace penstock::api::responses
