// Stands in for the tables of other processors.
#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

const Kernels* avx2_kernels() {
  return nullptr;
}

}  // namespace penstock::exec::cpu
