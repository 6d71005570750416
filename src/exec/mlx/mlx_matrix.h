// A stored matrix as MLX arrays: packed codes where MLX has the format, float32 otherwise. Engine thread
// after loading.
#pragma once

#include <optional>
#include <string>

#include <mlx/mlx.h>

#include "quant/matrix.h"

namespace penstock::exec::mlx {

class MlxMatrix {
 public:
  /// Copies the matrix. GGUF's integer formats with groups of 32 become affine codes without loss; others
  /// become float32.
  explicit MlxMatrix(const quant::Matrix& matrix);

  /// x: [T, cols]; the result is [T, rows].
  ::mlx::core::array multiply(const ::mlx::core::array& x) const;

  /// ids: [T]; the result is [T, cols].
  ::mlx::core::array rows(const ::mlx::core::array& ids) const;

  /// The whole matrix as one vector, for norms and biases. [rows * cols]
  ::mlx::core::array vector() const;

  /// Computes the arrays on this thread, so that any other may read them.
  void evaluate();

  size_t bytes() const;

 private:
  void set_dense(const quant::Matrix& matrix);
  void set_affine(const quant::Matrix& matrix);
  void set_floating_point_codes(const quant::Matrix& matrix);

  std::string mode_;  // empty: dense
  int group_ = 0, bits_ = 0;
  ::mlx::core::array weight_;  // dense [rows, cols], or codes [rows, cols * bits / 32]
  std::optional<::mlx::core::array> scales_, biases_;
};

}  // namespace penstock::exec::mlx
