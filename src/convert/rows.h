// Makes rows of an item's tensors. Stateless: any thread, and threads may share an item. Memory: a few rows.
#pragma once

#include <cstddef>
#include <span>

#include "convert/item.h"

namespace penstock::convert {

/// Rows [first, first + count) of every part; those of part i go to outs[i], row after row.
/// Throws Error(kUnsupported) for a value that the item's dtype cannot hold.
void make_rows(const Item& item, int64_t first, int64_t count, std::span<std::byte* const> outs);

}  // namespace penstock::convert
