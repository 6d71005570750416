// The block table of one slot in one KV group, as executors on the host keep it. Engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/executor.h"

namespace penstock::exec {

/// Block `edit.index` of the table becomes `edit.block`; entries never set are -1.
inline void apply_edit(std::vector<int32_t>& table, const TableEdit& edit) {
  const auto index = static_cast<size_t>(edit.index);
  if (table.size() <= index) table.resize(index + 1, -1);
  table[index] = edit.block;
}

}  // namespace penstock::exec
