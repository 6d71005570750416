#include "ops/sample.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "ops/elementary.h"
#include "ops/sample_cut.h"

namespace penstock::ops {
namespace {

using base::Code;
using base::Error;

/// The counter's part that all tokens of a row share.
uint64_t noise_key(uint64_t seed, int32_t position) {
  return base::splitmix64(seed) ^ (static_cast<uint64_t>(static_cast<uint32_t>(position)) << 32);
}

uint64_t noise_bits(uint64_t key, int32_t token) {
  return base::splitmix64(key ^ static_cast<uint32_t>(token)) >> 12;
}

/// u = (bits + 1/2) / 2^52 is exact and never 0 or 1.
float gumbel_of(uint64_t bits) {
  const double u = (static_cast<double>(bits) + 0.5) * 0x1p-52;
  return static_cast<float>(-natural_log(-natural_log(u)));
}

/// Not below gumbel_of(bits): -log(-log u) <= -log(1 - u), and 1 - u >= 2^(width(~bits) - 53).
float gumbel_bound(uint64_t bits) {
  const int width = std::bit_width(~bits & 0xfffffffffffffULL);
  return static_cast<float>(53 - std::max(width, 0)) * 0.6932f;
}
constexpr float kGumbelMax = 53 * 0.6932f;
constexpr float kSlack = 1e-3f;  // more than the rounding of a sum that can win

void require_finite(const ScannedRow& row) {
  if (!row.has_bad && row.argmax >= 0) return;
  throw Error(Code::kInternal, "[ops.sample] expected finite logits; got NaN, +infinity or none");
}

bool has_penalty(const SampleParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

size_t checked_token(int32_t token, size_t vocab) {
  if (token < 0 || static_cast<size_t>(token) >= vocab) {
    throw Error(Code::kInvalidRequest, "[ops.sample] expected a token id below " + std::to_string(vocab) +
                                           "; got " + std::to_string(token));
  }
  return static_cast<size_t>(token);
}

void apply_counts(std::span<float> logits, const SampleParams& p, std::span<const TokenCounts> counts) {
  for (const TokenCounts& c : counts) {
    float& logit = logits[checked_token(c.token, logits.size())];
    if (c.in_prompt || c.generated > 0) {
      logit = logit < 0 ? logit * p.repetition_penalty : logit / p.repetition_penalty;
    }
    if (c.generated > 0) {
      logit -= p.presence_penalty + p.frequency_penalty * static_cast<float>(c.generated);
    }
  }
}

/// What is not allowed becomes minus infinity.
void apply_mask(std::span<float> logits, std::span<const uint32_t> mask) {
  constexpr size_t kBits = 32;
  for (size_t first = 0; first < logits.size(); first += kBits) {
    const uint32_t word = first / kBits < mask.size() ? mask[first / kBits] : 0;
    if (word == ~uint32_t{0}) continue;
    const size_t n = std::min(kBits, logits.size() - first);
    for (size_t i = 0; i < n; ++i) {
      if ((word >> i & 1) == 0) logits[first + i] = -std::numeric_limits<float>::infinity();
    }
  }
}

/// Argmax over tempered logit + noise of the kept tokens.
int32_t draw(const ScannedRow& row, Cut cut, const SampleParams& p, int32_t position) {
  const uint64_t noise = noise_key(p.seed, position);
  int32_t token = row.argmax;
  float best = gumbel_of(noise_bits(noise, token));
  for (size_t b = 0; b < row.block_max.size(); ++b) {
    const float max = row.block_max[b];
    if (max < cut.value || tempered(max, row.max, p.temperature) + kGumbelMax < best) continue;
    const size_t first = b * kScanBlock;
    const size_t n = std::min(kScanBlock, row.values.size() - first);
    const float* values = row.values.data() + first;
    std::array<float, kScanBlock> t;
    for (size_t i = 0; i < n; ++i) t[i] = tempered(values[i], row.max, p.temperature);
    for (size_t i = 0; i < n; ++i) {
      const auto id = static_cast<int32_t>(first + i);
      const uint64_t bits = noise_bits(noise, id);
      if (t[i] + gumbel_bound(bits) + kSlack < best || !cut.keeps(values[i], id)) continue;
      const float key = t[i] + gumbel_of(bits);
      if (key > best || (key == best && id < token)) {
        best = key;
        token = id;
      }
    }
  }
  return token;
}

int32_t choose(const ScannedRow& row, const SampleParams& p, int32_t position) {
  require_finite(row);
  if (p.temperature == 0) return row.argmax;
  Cut cut;
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < row.values.size()) cut = top_k_cut(row, p.top_k);
  if (p.top_p < 1) cut = top_p_cut(row, cut, p.temperature, p.top_p);
  if (p.min_p > 0) cut = min_p_cut(row, cut, p.temperature, p.min_p);
  return draw(row, cut, p, position);
}

/// log of the sum of exp(value - max).
double log_sum(const ScannedRow& row) {
  double sum = 0;
  for (size_t b = 0; b < row.block_max.size(); ++b) {
    if (row.block_max[b] - row.max < -40) continue;
    std::array<float, kScanBlock> e{};
    const size_t first = b * kScanBlock;
    const size_t n = std::min(kScanBlock, row.values.size() - first);
    const float* values = row.values.data() + first;
    for (size_t i = 0; i < n; ++i) e[i] = exp_nonpositive(values[i] - row.max);
    std::array<float, 8> lanes{};
    for (size_t i = 0; i < kScanBlock; ++i) lanes[i % 8] += e[i];
    for (const float lane : lanes) sum += static_cast<double>(lane);
  }
  return natural_log(sum);
}

void add_logprobs(const ScannedRow& row, int32_t n_top, Draw& out) {
  const double norm = static_cast<double>(row.max) + log_sum(row);
  const auto logprob = [&](float v) { return static_cast<float>(static_cast<double>(v) - norm); };
  out.logprob = logprob(row.values[static_cast<size_t>(out.token)]);
  if (n_top <= 0) return;
  const Cut cut = top_k_cut(row, n_top);
  for_each_kept(row, cut, [&](int32_t id, float v) { out.top.push_back({id, v}); });
  std::sort(out.top.begin(), out.top.end(), [](const TopToken& a, const TopToken& b) {
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token);
  });
  for (TopToken& t : out.top) t.logprob = logprob(t.logprob);
}

}  // namespace

void check(const SampleParams& p) {
  const auto require = [](bool ok, const char* field, float got) {
    if (ok) return;
    throw Error(Code::kInvalidRequest,
                std::string("[ops.sample] ") + field + " is out of range; got " + std::to_string(got), field);
  };
  require(p.temperature >= 0 && std::isfinite(p.temperature), "temperature", p.temperature);
  require(p.top_k >= 0, "top_k", static_cast<float>(p.top_k));
  require(p.top_p >= 0, "top_p", p.top_p);
  require(p.min_p >= 0 && p.min_p <= 1, "min_p", p.min_p);
  require(p.repetition_penalty > 0 && std::isfinite(p.repetition_penalty), "repetition_penalty",
          p.repetition_penalty);
  require(std::isfinite(p.presence_penalty), "presence_penalty", p.presence_penalty);
  require(std::isfinite(p.frequency_penalty), "frequency_penalty", p.frequency_penalty);
}

float gumbel(uint64_t seed, int32_t position, int32_t token) {
  return gumbel_of(noise_bits(noise_key(seed, position), token));
}

Draw sample(std::span<const float> logits, const SampleParams& params, const RowEdits& edits,
            int32_t position, int32_t n_top) {
  thread_local ScannedRow raw, processed;
  thread_local std::vector<float> edited;
  check(params);
  scan(logits, raw);
  require_finite(raw);
  Draw out;
  const bool has_counts = !edits.counts.empty() && has_penalty(params);
  if (edits.biases.empty() && !has_counts && edits.mask.empty()) {
    out.token = choose(raw, params, position);
  } else {
    edited.assign(logits.begin(), logits.end());
    for (const Bias& b : edits.biases) edited[checked_token(b.token, edited.size())] += b.value;
    if (has_counts) apply_counts(edited, params, edits.counts);
    if (!edits.mask.empty()) apply_mask(edited, edits.mask);
    scan(edited, processed);
    if (!edits.mask.empty() && !processed.has_bad && processed.argmax < 0) return out;
    out.token = choose(processed, params, position);
  }
  if (n_top >= 0) add_logprobs(raw, n_top, out);
  return out;
}

}  // namespace penstock::ops
