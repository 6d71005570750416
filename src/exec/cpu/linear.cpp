#include "exec/cpu/linear.h"

#include <algorithm>
#include <cstring>

namespace penstock::exec::cpu {

namespace {

void prepare_row(const Context& context, const LinearInput& input, const ActivationRows& rows, int64_t m) {
  const int64_t from = input.row_index != nullptr ? input.row_index[m] : m;
  const float* x = input.x + from * input.cols;
  float* row = rows.row(m, input.cols);
  if (input.norm != nullptr && input.norm->present())
    input.norm->apply(*context.kernels, x, input.cols, row);
  else
    std::memcpy(row, x, static_cast<size_t>(input.cols) * sizeof(float));
  rows.quantize(*context.kernels, input.groups, row, m, input.cols, {0, input.cols});
}

}  // namespace

const ActivationRows& prepare(Context& context, int32_t thread, const LinearInput& input) {
  if (input.m <= kPrivateRows) {
    const ActivationRows& rows = context.threads[static_cast<size_t>(thread)].rows;
    for (int64_t m = 0; m < input.m; ++m) prepare_row(context, input, rows, m);
    return rows;
  }
  const Range mine = context.share(input.m, thread);
  for (int64_t m = mine.first; m < mine.last; ++m) prepare_row(context, input, context.rows, m);
  context.pool->barrier(thread);
  return context.rows;
}

void multiply_range(const Context& context, int32_t thread, const LinearPart& part,
                    const ActivationRows& rows, int32_t m, Range units) {
  if (units.first >= units.last || m == 0) return;
  const PackedMatrix& matrix = *part.matrix;
  const Kernels& kernels = *context.kernels;
  if (!matrix.integer)
    kernels.linear_dense(matrix.dense, rows.floats(m, matrix.cols()), units, part.out);
  else if (context.exact || matrix.group() == 0)
    kernels.linear_exact(matrix.codes, rows.floats(m, matrix.cols()), units, part.out,
                         context.threads[static_cast<size_t>(thread)].exact.data());
  else
    kernels.linear_codes(matrix.codes, rows.quantized(matrix.group(), m, matrix.cols()), units, part.out,
                         context.threads[static_cast<size_t>(thread)].panel.data());
}

void multiply(const Context& context, int32_t thread, std::span<const LinearPart> parts,
              const ActivationRows& rows, int32_t m) {
  const int64_t grain = context.kernels->strips;  // units of a piece: whole ones of the kernels
  int64_t total = 0;
  for (const LinearPart& part : parts) total += part.matrix->units() * part.matrix->unit_bytes();
  for (int32_t index; (index = context.pool->take(thread, context.n_pieces())) >= 0;) {
    const Range mine = context.piece(total, index);
    int64_t before = 0;
    for (const LinearPart& part : parts) {
      const int64_t units = part.matrix->units(), bytes = part.matrix->unit_bytes() * grain;
      const auto unit_at = [&](int64_t byte) {
        return byte <= before ? 0 : std::min((byte - before + bytes - 1) / bytes * grain, units);
      };
      multiply_range(context, thread, part, rows, m, {unit_at(mine.first), unit_at(mine.last)});
      before += units * part.matrix->unit_bytes();
    }
  }
}

void norm_rows(const Context& context, int32_t thread, const NormWeights& norm, float* rows, int64_t width) {
  const Range mine = context.share(context.step.n_tokens(), thread);
  for (int64_t m = mine.first; m < mine.last; ++m)
    norm.apply(*context.kernels, rows + m * width, width, rows + m * width);
}

void add_normed(const Context& context, int32_t thread, const NormWeights& norm, float* residual,
                int64_t width) {
  const Range mine = context.share(context.step.n_tokens(), thread);
  for (int64_t m = mine.first; m < mine.last; ++m) {
    float* sum = context.sum.data() + m * width;
    norm.apply(*context.kernels, sum, width, sum);
    context.kernels->add(sum, width, residual + m * width);
  }
}

}  // namespace penstock::exec::cpu
