#include "ops/sample_cut.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/elementary.h"

namespace penstock::ops {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kFinite = std::numeric_limits<float>::max();

struct Candidate {
  float value;
  int32_t token;
};

bool before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

using FourFloats __attribute__((vector_size(16))) = float;
using FourInts __attribute__((vector_size(16))) = int32_t;

/// Largest value of a full block; sets `bad` for a NaN or +infinity. In vectors: every token reads its row.
float scan_block(const float* values, int32_t& bad) {
  constexpr size_t kVectors = 4, kLanes = 4;
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  std::array<FourFloats, kVectors> top;
  top.fill(FourFloats{kLeast, kLeast, kLeast, kLeast});
  FourInts fine = {-1, -1, -1, -1};
  for (size_t i = 0; i < kScanBlock; i += kVectors * kLanes) {
    for (size_t k = 0; k < kVectors; ++k) {
      FourFloats v;
      std::memcpy(&v, values + i + k * kLanes, sizeof(v));
      top[k] = v > top[k] ? v : top[k];
      fine &= v <= kFinite;
    }
  }
  for (size_t k = 1; k < kVectors; ++k) top[0] = top[k] > top[0] ? top[k] : top[0];
  float max = top[0][0];
  for (size_t l = 0; l < kLanes; ++l) {
    max = top[0][l] > max ? top[0][l] : max;
    bad |= fine[l] + 1;
  }
  return max;
}

constexpr float kMassRange = 28.4f;  // exp of less is below half of 2^-40, and counts as nothing
constexpr size_t kBins = 1024;
constexpr float kBinsPerUnit = static_cast<float>(kBins) / kMassRange;

int32_t bin_of(float t) {
  const float depth = -t < kMassRange ? -t : kMassRange;
  const auto bin = static_cast<int32_t>(depth * kBinsPerUnit);
  return bin < static_cast<int32_t>(kBins) ? bin : static_cast<int32_t>(kBins) - 1;
}

/// Probability of a tempered logit in units of 2^-40 of the largest.
uint64_t mass(float t, float exp_t) {
  return t < -kMassRange ? 0 : static_cast<uint64_t>(static_cast<int64_t>(exp_t * 0x1p40f + 0.5f));
}

/// Adds the mass of what the cut keeps of one block to the bins.
void add_block(const ScannedRow& row, size_t first, Cut cut, float temperature,
               std::array<uint64_t, kBins>& bins) {
  std::array<float, kScanBlock> t, e;
  std::array<int32_t, kScanBlock> bin;
  const size_t n = std::min(kScanBlock, row.values.size() - first);
  const float* values = row.values.data() + first;
  for (size_t i = 0; i < n; ++i) t[i] = tempered(values[i], row.max, temperature);
  for (size_t i = 0; i < n; ++i) e[i] = exp_nonpositive(t[i]);
  for (size_t i = 0; i < n; ++i) bin[i] = bin_of(t[i]);
  for (size_t i = 0; i < n; ++i) {
    if (!cut.keeps(values[i], static_cast<int32_t>(first + i))) continue;
    bins[static_cast<size_t>(bin[i])] += mass(t[i], e[i]);
  }
}

/// Within one bin, the last member of the shortest prefix whose mass reaches `need`.
Cut cut_in_bin(const ScannedRow& row, Cut cut, float temperature, int32_t bin, uint64_t need) {
  thread_local std::vector<Candidate> members;
  members.clear();
  // Values clearly outside the bin are left out before the division; bin_of decides the rest.
  const float above = row.max - temperature * (static_cast<float>(bin) - 0.5f) / kBinsPerUnit;
  const float below = row.max - temperature * (static_cast<float>(bin) + 1.5f) / kBinsPerUnit;
  for_each_kept(row, cut, [&](int32_t id, float v) {
    if (v > above || (v < below && bin + 1 < static_cast<int32_t>(kBins))) return;
    if (bin_of(tempered(v, row.max, temperature)) == bin) members.push_back({v, id});
  });
  std::sort(members.begin(), members.end(), before);
  uint64_t sum = 0;
  for (const Candidate& c : members) {
    const float t = tempered(c.value, row.max, temperature);
    sum += mass(t, exp_nonpositive(t));
    if (sum >= need) return {c.value, c.token};
  }
  return cut;
}

}  // namespace

void scan(std::span<const float> values, ScannedRow& row) {
  const size_t n_blocks = (values.size() + kScanBlock - 1) / kScanBlock;
  row.values = values;
  row.block_max.resize(n_blocks);
  row.max = -std::numeric_limits<float>::infinity();
  row.argmax = -1;
  int32_t bad = 0;
  size_t best = 0;
  for (size_t b = 0; b < n_blocks; ++b) {
    const size_t first = b * kScanBlock;
    std::array<float, kScanBlock> padded;
    const float* block = values.data() + first;
    if (values.size() - first < kScanBlock) {
      padded.fill(-std::numeric_limits<float>::infinity());
      std::copy(values.begin() + static_cast<std::ptrdiff_t>(first), values.end(), padded.begin());
      block = padded.data();
    }
    row.block_max[b] = scan_block(block, bad);
    if (row.block_max[b] > row.max) {
      row.max = row.block_max[b];
      best = first;
    }
  }
  row.has_bad = bad != 0;
  if (!(row.max >= kLowest)) return;
  while (values[best] != row.max) ++best;
  row.argmax = static_cast<int32_t>(best);
}

Cut top_k_cut(const ScannedRow& row, int32_t k) {
  thread_local std::vector<float> maxima;
  thread_local std::vector<Candidate> candidates;
  const auto kth = static_cast<std::ptrdiff_t>(k) - 1;
  Cut threshold;
  if (static_cast<size_t>(k) <= row.block_max.size()) {
    maxima = row.block_max;
    std::nth_element(maxima.begin(), maxima.begin() + kth, maxima.end(), std::greater<>());
    // At least k values are not below the k-th largest block maximum.
    threshold.value = std::max(threshold.value, maxima[static_cast<size_t>(kth)]);
  }
  candidates.clear();
  for_each_kept(row, threshold, [&](int32_t id, float v) { candidates.push_back({v, id}); });
  if (candidates.size() <= static_cast<size_t>(kth)) return {};
  std::nth_element(candidates.begin(), candidates.begin() + kth, candidates.end(), before);
  const Candidate& last = candidates[static_cast<size_t>(kth)];
  return {last.value, last.token};
}

Cut top_p_cut(const ScannedRow& row, Cut cut, float temperature, float p) {
  std::array<uint64_t, kBins> bins{};
  for (size_t b = 0; b < row.block_max.size(); ++b) {
    const float max = row.block_max[b];
    if (max < cut.value || tempered(max, row.max, temperature) < -kMassRange) continue;
    add_block(row, b * kScanBlock, cut, temperature, bins);
  }
  uint64_t total = 0;
  for (const uint64_t m : bins) total += m;
  auto need = static_cast<uint64_t>(static_cast<double>(p) * static_cast<double>(total));
  need = std::clamp<uint64_t>(need, 1, total);
  int32_t bin = 0;
  while (bins[static_cast<size_t>(bin)] < need) need -= bins[static_cast<size_t>(bin++)];
  return cut_in_bin(row, cut, temperature, bin, need);
}

Cut min_p_cut(const ScannedRow& row, Cut cut, float temperature, float min_p) {
  const auto least = static_cast<float>(natural_log(static_cast<double>(min_p)));
  float lowest = row.max;
  for_each_kept(row, cut, [&](int32_t, float v) {
    if (v < lowest && tempered(v, row.max, temperature) >= least) lowest = v;
  });
  return lowest > cut.value ? Cut{lowest, std::numeric_limits<int32_t>::max()} : cut;
}

}  // namespace penstock::ops
