// Stands in for the tables of other processors.
#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

#ifndef __x86_64__
const Kernels* avx2_kernels() {
  return nullptr;
}

const Kernels* avx512_kernels() {
  return nullptr;
}
#endif

#ifndef __aarch64__
const Kernels* neon_kernels() {
  return nullptr;
}

const Kernels* neon_dotprod_kernels() {
  return nullptr;
}

const Kernels* neon_i8mm_kernels() {
  return nullptr;
}
#endif

}  // namespace penstock::exec::cpu
