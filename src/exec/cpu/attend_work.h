// How the attention of a step is cut into items. The cut never changes a result: a query's partitions of 256
// positions are computed alike and merged in order whoever does it. Pure functions.
#pragma once

#include "exec/cpu/step.h"

namespace penstock::exec::cpu {

/// First position that a query at `position` sees.
inline int32_t first_visible(int32_t position, int32_t window) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}

/// Partials that split attention may need; cut_attention() stays below.
int64_t max_partials(int32_t threads, int32_t max_context);

/// The items of one KV group, longest first.
AttendWork cut_attention(const models::KvGroup& group, const std::vector<QueryBlock>& blocks,
                         int32_t threads);

}  // namespace penstock::exec::cpu
