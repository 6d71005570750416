#include "ops/operation.h"

namespace penstock::ops {

const char* name(const Operation& operation) {
  static constexpr const char* kNames[] = {"embed", "attn_in", "attend", "project", "mlp", "head", "pool"};
  static_assert(std::size(kNames) == std::variant_size_v<Operation>);
  return kNames[operation.index()];
}

}  // namespace penstock::ops
