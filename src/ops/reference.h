// The scalar reference of every operation: plain float32 in and out, products summed in float64. Slow and
// readable; what every executor is tested against. Single-threaded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/operation.h"

namespace penstock::ops {

/// Dequantised weights, made on first use.
class ReferenceWeights {
 public:
  explicit ReferenceWeights(const WeightTable& table) : table_(&table), values_(table.size()) {}

  /// [rows, cols] in float32; empty for kNoWeight.
  std::span<const float> values(WeightId id);
  int64_t rows(WeightId id) const { return (*table_)[static_cast<size_t>(id)].rows; }
  int64_t cols(WeightId id) const { return (*table_)[static_cast<size_t>(id)].cols; }

 private:
  const WeightTable* table_;
  std::vector<std::vector<float>> values_;
};

/// Keys and values that one token may see: positions first to first + n - 1 of one layer.
struct VisibleKv {
  std::span<const float> keys;    // [n, kv_heads * head_dim]
  std::span<const float> values;  // [n, kv_heads * head_dim]
  int32_t first_position = 0;
};

/// y = norm(x) for one vector, x for an absent norm; y may be x.
void norm_reference(const Norm& norm, ReferenceWeights& weights, std::span<const float> x,
                    std::span<float> y);

/// y = W x + bias for one vector.
void linear_reference(const Linear& linear, ReferenceWeights& weights, std::span<const float> x,
                      std::span<float> y);

/// Turns one head in place.
void rope_reference(const Rope& rope, int32_t position, std::span<float> head);

float activation_reference(Activation activation, float x);

/// A token as Embed sees it.
struct EmbeddedToken {
  int32_t id = 0, position = 0, type = 0;
};

/// out: [hidden] of one token.
void embed_reference(const Embed& op, ReferenceWeights& weights, const EmbeddedToken& token,
                     std::span<float> out);

/// h: [hidden] of one token; q: [q_heads * head_dim]; k and v: [kv_heads * head_dim], as they go into the
/// cache.
struct AttnInOutput {
  std::vector<float> q, k, v;
};
AttnInOutput attn_in_reference(const AttnIn& op, const Rope* rope, ReferenceWeights& weights,
                               int32_t position, std::span<const float> h);

/// q, o: [q_heads * head_dim] of the token at `position`, which sees the cache up to itself, or all of `kv`
/// for whole_text.
void attend_reference(const Attend& op, int32_t position, const VisibleKv& kv, std::span<const float> q,
                      std::span<float> o);

/// o: [cols]; h: [hidden], read and written.
void project_reference(const Project& op, ReferenceWeights& weights, std::span<const float> o,
                       std::span<float> h);

/// h: [hidden], read and written.
void mlp_reference(const Mlp& op, ReferenceWeights& weights, std::span<float> h);

/// h: [hidden]; logits: [vocab].
void head_reference(const Head& op, ReferenceWeights& weights, std::span<const float> h,
                    std::span<float> logits);

/// tokens: [hidden] each, all of one text. The result has the width of the last dense layer.
std::vector<float> pool_reference(const Pool& op, ReferenceWeights& weights,
                                  std::span<const std::span<const float>> tokens);

}  // namespace penstock::ops
