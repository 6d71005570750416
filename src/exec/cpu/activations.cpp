#include "exec/cpu/activations.h"

namespace penstock::exec::cpu {

namespace {

constexpr std::array<int32_t, 4> kGroups = {16, 32, 64, 128};

}  // namespace

ActivationRows::ActivationRows(int32_t max_rows, int64_t max_cols, GroupSet groups)
    : floats_(static_cast<size_t>(max_rows * max_cols)) {
  for (size_t i = 0; i < kGroups.size(); ++i) {
    if ((groups >> i & 1) == 0) continue;
    const auto n = static_cast<size_t>(max_rows * max_cols);
    const size_t n_groups = n / static_cast<size_t>(kGroups[i]) + static_cast<size_t>(max_rows);
    quantized_[i] = {Array<int8_t>(n), Array<float>(n_groups), Array<float>(n_groups),
                     Array<int32_t>(n_groups)};
  }
}

QuantRows ActivationRows::quantized(int32_t group, int32_t m, int64_t cols) const {
  const Quantized& q = quantized_[static_cast<size_t>(group_index(group))];
  return {q.codes.data(), q.scales.data(), q.sums.data(), q.code_sums.data(), cols, group, m};
}

void ActivationRows::quantize(const Kernels& kernels, GroupSet groups, const float* x, int64_t m,
                              int64_t cols, Range columns) const {
  for (size_t i = 0; i < kGroups.size(); ++i) {
    if ((groups >> i & 1) == 0) continue;
    const int32_t group = kGroups[i];
    QuantRows out = quantized(group, 1, columns.last - columns.first);
    const int64_t at = m * (cols / group) + columns.first / group;
    out.codes += m * cols + columns.first;
    out.scales += at;
    out.sums += at;
    out.code_sums += at;
    kernels.quantize_row(x, out);
  }
}

size_t ActivationRows::bytes() const {
  size_t total = floats_.bytes();
  for (const Quantized& q : quantized_)
    total += q.codes.bytes() + q.scales.bytes() + q.sums.bytes() + q.code_sums.bytes();
  return total;
}

GroupSet groups_of(std::initializer_list<const PackedMatrix*> matrices, bool exact) {
  GroupSet set = 0;
  for (const PackedMatrix* matrix : matrices)
    if (matrix->group() != 0 && !exact) set |= 1u << group_index(matrix->group());
  return set;
}

}  // namespace penstock::exec::cpu
