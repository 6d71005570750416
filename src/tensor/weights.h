// A model's claim on its checkpoint, strict both ways: a tensor that is missing or has another shape is an
// error when it is taken, a tensor that nobody took is an error in finish(). One thread (the loader). Copies
// share what is taken.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "tensor/checkpoint.h"
#include "tensor/view.h"

namespace penstock::tensor {

class Weights {
 public:
  explicit Weights(std::shared_ptr<const Checkpoint> checkpoint);

  /// The same claim with `prefix` in front of every name ("model.layers.0.").
  Weights scope(std::string_view prefix) const;

  bool has(std::string_view name) const;

  /// Marks the tensor used. Throws Error(kCorrupt): missing (with near names), of another shape, of a dtype
  /// this program does not read. Taking a tensor twice is allowed: tied weights.
  View take(std::string_view name, const Shape& shape);
  View take_any(std::string_view name);

  /// The table entry itself, for block formats. Marks it used.
  const StoredTensor& take_stored(std::string_view name);

  /// Marks every tensor used whose name matches (the prefix goes in front of the pattern); `*` stands for any
  /// run of characters.
  void ignore(std::string_view pattern);

  /// Throws Error(kCorrupt) with the count and the first ten names that nobody took or ignored.
  void finish() const;

  const std::shared_ptr<const Checkpoint>& checkpoint() const { return checkpoint_; }
  std::string full_name(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::shared_ptr<std::set<std::string, std::less<>>> used_;
  std::string prefix_;
};

}  // namespace penstock::tensor
