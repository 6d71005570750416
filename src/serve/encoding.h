// One request for vectors or scores on its way: its texts tokenised on a worker, computed by the model's
// encoder, handed over on a stream thread. Anyone may cancel it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>

#include "chat/encode_request.h"
#include "serve/generation.h"

namespace penstock::serve {

/// Called once unless the request is cancelled by its caller; on a stream thread, or on the one that refuses.
using OnAnswer = std::function<void(std::variant<chat::EncodeAnswer, base::Error>)>;

class Encoding : public RequestWork, public std::enable_shared_from_this<Encoding> {
 public:
  /// Counted as begun by the caller, counted as ended by itself.
  Encoding(std::shared_ptr<Shared> shared, chat::EncodeRequest request, OnAnswer on_answer);

  const std::string& id() const override { return request_.id; }
  void check(const pool::Model& model) const override;
  void attach(std::shared_ptr<const pool::Model> model) override;
  void await_model(std::function<bool()> withdraw) override;
  void refuse(base::Error error, Tally::End how) override { fail(std::move(error), how); }
  void prepare_and_submit() override;
  void cancel(Why why) override;

 private:
  void deliver(engine::Encoded encoded);
  void fail(base::Error error, Tally::End how);
  void end_cancelled(Why why);
  /// Counts the end, once: true for the first call.
  bool end(Tally::End how, Outcome outcome, std::optional<base::Code> error);

  const std::shared_ptr<Shared> shared_;
  const chat::EncodeRequest request_;
  std::shared_ptr<const pool::Model> model_;  // a lease where the model may be unloaded
  const std::chrono::steady_clock::time_point received_ = std::chrono::steady_clock::now();
  chat::EncodeAnswer answer_;  // of the thread that ends it

  std::mutex mutex_;
  OnAnswer on_answer_;
  std::optional<Why> cancelled_;
  std::optional<uint64_t> job_;     // in the encoder
  std::function<bool()> withdraw_;  // while it waits for a model
  bool ended_ = false;
};

}  // namespace penstock::serve
