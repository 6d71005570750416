// Matrix products of a step, shared between the threads of a job.
#pragma once

#include <span>
#include <vector>

#include "exec/cpu/step.h"

namespace penstock::exec::cpu {

/// Norm weights with their offset added.
struct NormWeights {
  std::vector<float> weight;  // empty: no norm
  float eps = 0;
  std::vector<float> bias = {};  // of a layer norm

  bool present() const { return !weight.empty(); }

  /// out = norm(x) of n numbers, where the norm is present; out may be x.
  void apply(const Kernels& kernels, const float* x, int64_t n, float* out) const {
    if (bias.empty())
      kernels.rms_norm(x, weight.data(), n, eps, out);
    else
      kernels.layer_norm(x, weight.data(), bias.data(), n, eps, out);
  }
};

/// Rows to multiply: `x` [m, cols], normed where the norm is present.
struct LinearInput {
  const float* x = nullptr;
  int64_t cols = 0;
  int32_t m = 0;
  const NormWeights* norm = nullptr;   // null: none
  const int32_t* row_index = nullptr;  // row r of the input is row row_index[r] of x; null: identity
  GroupSet groups = 0;
};

/// Norms and quantises the rows, and returns those to multiply with. Few rows are made by every thread for
/// itself; more are shared between the threads, with a barrier at the end.
const ActivationRows& prepare(Context& context, int32_t thread, const LinearInput& input);

/// LinearOut::bias of a bias that may be absent.
inline const float* bias_of(const std::vector<float>& values) {
  return values.empty() ? nullptr : values.data();
}

/// One matrix of a product; several may read the same rows.
struct LinearPart {
  const PackedMatrix* matrix = nullptr;
  LinearOut out;
};

/// All threads multiply the parts, in pieces of equal bytes of weights that they take. No barrier, but there
/// must have been one since the last work that was taken.
void multiply(const Context& context, int32_t thread, std::span<const LinearPart> parts,
              const ActivationRows& rows, int32_t m);

/// Units [range) of one part.
void multiply_range(const Context& context, int32_t thread, const LinearPart& part,
                    const ActivationRows& rows, int32_t m, Range units);

/// rows = norm(rows) for this thread's of a buffer, after a barrier.
void norm_rows(const Context& context, int32_t thread, const NormWeights& norm, float* rows, int64_t width);

/// residual += norm(sum) for this thread's rows, after a barrier.
void add_normed(const Context& context, int32_t thread, const NormWeights& norm, float* residual,
                int64_t width);

}  // namespace penstock::exec::cpu
