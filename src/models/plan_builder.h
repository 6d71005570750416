// Makes the parts of a Plan that every lowering needs: names to ids, each weight, buffer and KV group once.
#pragma once

#include <string>

#include "models/plan.h"
#include "models/spec.h"

namespace penstock::models {

class PlanBuilder {
 public:
  /// Names, sizes and ropes are the spec's, which must outlive the builder.
  explicit PlanBuilder(const ModelSpec& spec);

  /// The same buffer for the same name and width.
  ops::BufferId buffer(const std::string& name, int64_t width);
  ops::WeightId matrix(const std::string& name, int64_t rows, int64_t cols);
  ops::WeightId vector(const std::string& name, int64_t cols);
  ops::Linear linear(const std::string& name, int64_t rows, int64_t cols, bool bias);

  /// An RMS norm, absent for an empty name.
  ops::Norm norm(const std::string& name, int64_t width);
  ops::Norm layer_norm(const std::string& name, int64_t width);

  /// A layer of keys and values of its own.
  int32_t kv_layer(const AttentionSpec& attention);

  void add(ops::Operation operation) { plan_.operations.push_back(std::move(operation)); }
  Plan& plan() { return plan_; }
  Plan take() { return std::move(plan_); }

 private:
  const ModelSpec& spec_;
  Plan plan_;
};

}  // namespace penstock::models
