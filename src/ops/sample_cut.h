// One row of logits scanned in blocks, and the sets that top-k, top-p and min-p keep of it. Every such set is
// a prefix of the order (value descending, id ascending), so its last member describes it and nothing is
// sorted. Plain functions, any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace penstock::ops {

inline constexpr size_t kScanBlock = 64;

struct ScannedRow {
  std::span<const float> values;  // [vocab]
  std::vector<float> block_max;   // [ceil(vocab / kScanBlock)]
  float max = -std::numeric_limits<float>::infinity();
  int32_t argmax = -1;   // the smallest id of the largest value, -1 if none is above -infinity
  bool has_bad = false;  // a NaN or +infinity somewhere
};

/// Scans `values`, which must outlive the row.
void scan(std::span<const float> values, ScannedRow& row);

/// The last member of a kept set. The default keeps every finite value.
struct Cut {
  float value = std::numeric_limits<float>::lowest();
  int32_t token = std::numeric_limits<int32_t>::max();

  bool keeps(float v, int32_t id) const { return v > value || (v == value && id <= token); }
};

/// The tempered logit, relative to the largest: (value - max) / temperature.
inline float tempered(float value, float max, float temperature) {
  return (value - max) / temperature;
}

/// Keeps the first k, k >= 1.
Cut top_k_cut(const ScannedRow& row, int32_t k);

/// Of what `cut` keeps, the shortest prefix whose share of the probability reaches p; at least one token.
/// Probabilities are in fixed point (2^-40 of the largest), so their sum does not depend on its order.
Cut top_p_cut(const ScannedRow& row, Cut cut, float temperature, float p);

/// Of what `cut` keeps, the tokens whose probability is at least min_p times the largest.
Cut min_p_cut(const ScannedRow& row, Cut cut, float temperature, float min_p);

/// Calls visit(id, value) for each kept token in order of id.
template <class Visit>
void for_each_kept(const ScannedRow& row, Cut cut, Visit visit) {
  for (size_t b = 0; b < row.block_max.size(); ++b) {
    if (row.block_max[b] < cut.value) continue;
    const size_t end = std::min(row.values.size(), (b + 1) * kScanBlock);
    for (size_t i = b * kScanBlock; i < end; ++i) {
      if (cut.keeps(row.values[i], static_cast<int32_t>(i))) visit(static_cast<int32_t>(i), row.values[i]);
    }
  }
}

}  // namespace penstock::ops
