#include "quant/format_list.h"
#include "quant/fp4.h"
#include "quant/small_float.h"

namespace penstock::quant {
namespace {

/// The scale is E4M3 times the matrix's global scale, rounded to float32 before it meets the code, as in MLX.
/// With a global scale other than 1 the integer form is inexact: it is off by less than 2^-19 of the group's
/// scale.
class Nvfp4 final : public Fp4Format {
 public:
  std::string_view name() const override { return "nvfp4"; }
  std::string_view describe() const override {
    return "NVFP4: E2M1 codes in groups of 16, an E4M3 scale per group, optionally one scale for the whole "
           "matrix";
  }

 protected:
  float scale(const Matrix& matrix, uint8_t bits) const override {
    return e4m3_to_f32(bits) * matrix.global_scale;
  }
};

}  // namespace

const Format& nvfp4() {
  static const Nvfp4 format;
  return format;
}

}  // namespace penstock::quant
