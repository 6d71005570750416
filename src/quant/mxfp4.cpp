#include "quant/format_list.h"
#include "quant/fp4.h"
#include "quant/small_float.h"

namespace penstock::quant {
namespace {

class Mxfp4 final : public Fp4Format {
 public:
  std::string_view name() const override { return "mxfp4"; }
  std::string_view describe() const override {
    return "OCP MXFP4: E2M1 codes in groups of 32, a power-of-two scale (E8M0) per group";
  }

 protected:
  float scale(const Matrix&, uint8_t bits) const override { return e8m0_to_f32(bits); }
};

}  // namespace

const Format& mxfp4() {
  static const Mxfp4 format;
  return format;
}

}  // namespace penstock::quant
