// What the loops over packed codes need of a matrix, on x86. Private to the file that includes it.
#pragma once

#include "exec/cpu/codes_x86.h"

namespace penstock::exec::cpu {

namespace {

/// A thread has some streams of about this many bytes under way. Blocks of the K formats are longer; there it
/// is a block, so that codes and scales come from the same distance.
inline constexpr int64_t kAheadBytes = 1024;

/// Worked out once a call: divisions cost as much as a group of columns.
struct CodeShape {
  const uint8_t* const codes;
  const ScaleReader reader;
  const int64_t rows, strip_bytes, block_bytes, blocks, block_groups, groups;
  const int64_t chunks;                 // of a group, or of a pair of groups of 16 columns
  const int64_t scales_at, scale_step;  // of a block, and of one of its groups
  const int64_t ahead;                  // bytes from what is read to what is asked for
  const int32_t offset;                 // times the sum of a group's activation codes, added to its sum

  CodeShape(const PackedCodes& w, int32_t code_offset)
      : codes(w.blocks),
        reader(w),
        rows(w.rows),
        strip_bytes(w.strip_bytes()),
        block_bytes(w.block_bytes()),
        blocks(w.blocks_of_strip()),
        block_groups(w.block_groups()),
        groups(w.groups()),
        chunks(w.group < kChunk ? 1 : w.group / kChunk),
        scales_at(w.code_bytes()),
        scale_step((w.block_bytes() - w.code_bytes()) / w.block_groups()),
        ahead(w.block_bytes() > kAheadBytes ? w.block_bytes() : kAheadBytes),
        offset(code_offset) {}

  /// Asks for the scales of a group, those of a whole block among its groups.
  inline __attribute__((always_inline)) void ask_scales(const uint8_t* block, int64_t group) const {
    prefetch_lines(block + scales_at + group * scale_step, 1);
  }
};

}  // namespace

}  // namespace penstock::exec::cpu
