// How attention goes over one tile of keys, the same for every instruction set: groups of queries share the
// loads of keys and values, and the arithmetic of a query does not depend on its company. All of it is
// private to the file that includes it: code built for one processor must not be merged with code built for
// another.
//
// What an instruction set Isa brings:
//   kQueries                                    most queries of a group
//   score<N>(tile, queries, scale, i, panels)   scores of queries i .. i + N - 1 against the first panels
//   weigh(queries, i, stride)                   scores of a query to weights; what it has summed is rescaled
//   add<N>(tile, queries, i, keys)              sums of N queries take the weighted values of keys in order
//   softcap(x, n, cap)
#pragma once

#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

namespace {

/// A tile by the type its numbers are stored in. T: float, or uint16_t for half precision.
template <class T>
struct TileOf {
  const T *keys, *values;
  int64_t dim, stride;
  int64_t next;  // bytes from this tile to the one that is asked for meanwhile, 0: none

  explicit TileOf(const AttendTile& tile)
      : keys(static_cast<const T*>(tile.keys)),
        values(static_cast<const T*>(tile.values)),
        dim(tile.dim),
        stride(tile.value_stride),
        next(tile.next == nullptr
                 ? 0
                 : static_cast<const uint8_t*>(tile.next) - static_cast<const uint8_t*>(tile.keys)) {}
};

/// call.operator()<N>(i) for the one group of N queries that is left from i on.
template <int N, class Call>
inline void rest_of_groups(int i, int left, const Call& call) {
  if constexpr (N > 0) {
    if (left == N)
      call.template operator()<N>(i);
    else
      rest_of_groups<N - 1>(i, left, call);
  }
}

/// call.operator()<N>(i) for groups of kMost queries and the smaller one behind them.
template <int kMost, class Call>
inline void in_groups(int n, const Call& call) {
  int i = 0;
  for (; i + kMost <= n; i += kMost) call.template operator()<kMost>(i);
  rest_of_groups<kMost - 1>(i, n - i, call);
}

/// Keys that all N queries see are added together, the others before and after them alone: each query still
/// adds its keys in order.
template <class Isa, int N, class T>
void values_of(const TileOf<T>& tile, const AttendQueries& queries, int i) {
  Range all = {queries.first[i], queries.last[i]};
  bool alike = true;
  for (int n = 1; n < N; ++n) {
    const Range keys = {queries.first[i + n], queries.last[i + n]};
    alike = alike && keys.first == all.first && keys.last == all.last;
    all.first = keys.first > all.first ? keys.first : all.first;
    all.last = keys.last < all.last ? keys.last : all.last;
  }
  const auto add_alone = [&](int n, int64_t first, int64_t last) {
    if (first < last) Isa::template add<1>(tile, queries, i + n, {first, last});
  };
  if (!alike && all.first >= all.last) {
    for (int n = 0; n < N; ++n) add_alone(n, queries.first[i + n], queries.last[i + n]);
    return;
  }
  if (!alike)
    for (int n = 0; n < N; ++n) add_alone(n, queries.first[i + n], all.first);
  if (all.first < all.last) Isa::template add<N>(tile, queries, i, all);
  if (!alike)
    for (int n = 0; n < N; ++n) add_alone(n, all.last, queries.last[i + n]);
}

template <class Isa, class T>
void attend(const TileOf<T>& tile, const AttendQueries& queries, int panels) {
  // Scores are powers of two, so that weights are exp2 of their differences.
  const bool capped = queries.softcap > 0;
  const float scale = capped ? queries.scale : queries.scale * kLog2E;
  in_groups<Isa::kQueries>(queries.n,
                           [&]<int N>(int i) { Isa::template score<N>(tile, queries, scale, i, panels); });
  if (capped) {
    const int64_t n = int64_t{queries.n} * kTileKeys;
    Isa::softcap(queries.scores, n, queries.softcap);
    for (int64_t k = 0; k < n; ++k) queries.scores[k] *= kLog2E;
  }
  for (int i = 0; i < queries.n; ++i)
    if (queries.first[i] < queries.last[i]) Isa::weigh(queries, i, tile.stride);
  in_groups<Isa::kQueries>(queries.n, [&]<int N>(int i) { values_of<Isa, N>(tile, queries, i); });
}

template <class Isa>
void attend_tile(const AttendTile& tile, const AttendQueries& queries) {
  int last = 0;
  for (int i = 0; i < queries.n; ++i)
    if (queries.first[i] < queries.last[i] && queries.last[i] > last) last = queries.last[i];
  if (last == 0) return;
  const int panels = (last + kPanelKeys - 1) / kPanelKeys;
  if (tile.half)
    attend<Isa>(TileOf<uint16_t>(tile), queries, panels);
  else
    attend<Isa>(TileOf<float>(tile), queries, panels);
}

}  // namespace

}  // namespace penstock::exec::cpu
