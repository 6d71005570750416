// The operations of a plan: coarse, already fused, plain data. Buffers are [tokens, width] in float32. T is
// the number of tokens of a step. Rounding points: none but those of float32, unless an executor's caps say
// otherwise.
#pragma once

#include <variant>
#include <vector>

#include "ops/weight.h"

namespace penstock::ops {

/// RMS norm: y = x / sqrt(mean(x^2) + eps) * (weight + offset). Where there is a bias, layer norm:
/// y = d / sqrt(mean(d^2) + eps) * (weight + offset) + bias, d = x - mean(x). Absent when weight is
/// kNoWeight: y = x.
struct Norm {
  WeightId weight = kNoWeight;
  float eps = 0;
  float offset = 0;  // 1 for gemma, whose checkpoints store weight - 1
  WeightId bias = kNoWeight;

  bool present() const { return weight != kNoWeight; }
};

/// y = x W^T + bias.
struct Linear {
  WeightId weight = kNoWeight;  // [rows, cols]
  WeightId bias = kNoWeight;    // [rows] or absent
};

/// h = norm(table[id] * scale + positions[position] + types[type]); tables that are absent add nothing.
struct Embed {
  WeightId table = kNoWeight;  // [vocab, hidden]
  float scale = 1;
  BufferId out = 0;                // [T, hidden]
  WeightId positions = kNoWeight;  // [max_position, hidden]
  WeightId types = kNoWeight;      // [token types, hidden]
  Norm norm;
};

/// x = norm(h); q = rope(q_norm(Wq x)); k = rope(k_norm(Wk x)) and v = Wv x are appended to the KV cache.
struct AttnIn {
  BufferId in = 0;     // [T, hidden]
  BufferId out_q = 0;  // [T, q_heads * head_dim]
  Norm norm;
  Linear q, k, v;
  Norm q_norm, k_norm;  // over head_dim, one weight for all heads
  int32_t rope = -1;    // index into Plan::ropes, -1 none
  int32_t kv_layer = 0;
  int32_t q_heads = 0, kv_heads = 0, head_dim = 0;
};

/// Attention over the cache: o = softmax(scale * q k^T) v, causal or over all of a text. Head h reads KV head
/// h / (q_heads / kv_heads).
struct Attend {
  BufferId in_q = 0;   // [T, q_heads * head_dim]
  BufferId out_o = 0;  // [T, q_heads * head_dim]
  int32_t kv_layer = 0;
  int32_t q_heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;
  int32_t window = 0;       // a token at position p sees positions p - window + 1 to p; 0 sees all
  float softcap = 0;        // scores become softcap * tanh(score / softcap); 0 none
  bool whole_text = false;  // a token sees every position of its text, which one step holds whole
};

/// h = out_norm(h + post_norm(W o)).
struct Project {
  BufferId in = 0;        // [T, cols]
  BufferId residual = 0;  // [T, hidden], read and written
  Linear linear;
  Norm post_norm;
  Norm out_norm;
};

enum class Activation : uint8_t { kSilu, kGeluTanh, kGelu };

/// h = out_norm(h + post_norm(W_down (act(W_gate x) * W_up x))), x = norm(h). Without a gate act(W_up x) goes
/// down.
struct Mlp {
  BufferId residual = 0;  // [T, hidden], read and written
  Norm norm;
  Linear gate, up, down;
  Activation activation = Activation::kSilu;
  Norm post_norm;
  Norm out_norm;

  bool gated() const { return gate.weight != kNoWeight; }
};

/// logits = softcap(W norm(h)) for the rows that ask for logits.
struct Head {
  BufferId in = 0;  // [T, hidden]
  Norm norm;
  WeightId weight = kNoWeight;  // [vocab, hidden]
  float softcap = 0;
};

/// How the tokens of a text become one vector.
enum class Pooling : uint8_t { kMean, kFirst, kLast };

/// y = act(W x + bias).
struct Dense {
  enum class Activation : uint8_t { kNone, kTanh, kSigmoid };
  Linear linear;
  Activation activation = Activation::kNone;
};

/// One vector for each text: e = dense(... pool(h)), made one of length 1 where `unit` says so.
struct Pool {
  BufferId in = 0;  // [T, hidden]
  Pooling pooling = Pooling::kMean;
  std::vector<Dense> dense;
  bool unit = false;
};

using Operation = std::variant<Embed, AttnIn, Attend, Project, Mlp, Head, Pool>;

/// Lower-case name of an operation ("attn_in"), for errors and `penstock plan`.
const char* name(const Operation& operation);

/// Rotary embedding: the pair (x[i], x[i + dims / 2]) is turned by position * inv_freq[i]; interleaved turns
/// (x[2i], x[2i+1]).
struct Rope {
  int32_t dims = 0;  // leading elements of a head that are turned
  bool interleaved = false;
  std::vector<float> inv_freq;  // [dims / 2]
  float magnitude = 1;          // factor on the turned q and k (yarn)
};

}  // namespace penstock::ops
