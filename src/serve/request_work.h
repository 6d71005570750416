// A request on its way, as Service drives it: from its model over a worker to the engine. Implemented by
// Generation and Encoding.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "pool/model.h"
#include "serve/counters.h"

namespace penstock::serve {

class RequestWork {
 public:
  enum class Why { kCaller, kDisconnected, kById };
  virtual ~RequestWork() = default;

  /// Of the answer, by which it may be cancelled; empty: it cannot be.
  virtual const std::string& id() const = 0;

  /// What can be said against it before it costs anything. Throws Error with the field.
  virtual void check(const pool::Model& model) const = 0;

  /// The model that serves it, kept until the end. Once, before prepare_and_submit().
  virtual void attach(std::shared_ptr<const pool::Model> model) = 0;

  /// It waits for a model that is being loaded. `withdraw` ends the wait, or says false where that is over;
  /// it is called at most once, by a cancel.
  virtual void await_model(std::function<bool()> withdraw) = 0;

  /// Ends it instead of prepare_and_submit().
  virtual void refuse(base::Error error, Tally::End how) = 0;

  /// The first stage, on a worker.
  virtual void prepare_and_submit() = 0;

  /// Ends it: what runs stops at the next step, what waits never runs. Any thread; does not block.
  virtual void cancel(Why why) = 0;
};

}  // namespace penstock::serve
