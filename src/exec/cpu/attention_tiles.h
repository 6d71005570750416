// How attention goes over one tile of keys, the same for every instruction set: groups of queries share the
// loads of keys and values, and the arithmetic of a query does not depend on its company. All of it is
// private to the file that includes it: code built for one processor must not be merged with code built for
// another.
//
// What an instruction set Isa brings:
//   kQueries                                   most queries of a group
//   kCodes                                     whether it reads codes
//   score<N>(keys, queries, scale, i, panels)  scores of queries i .. i + N - 1 against the first panels
//   weigh(queries, i, stride)                  scores of a query to weights; what it has summed is rescaled
//   add<N>(values, adding, keys, dims)         sums of N queries take the weighted values of keys in order
//   times(a, b, out)                           products of 64 numbers
//   softcap(x, n, cap)
#pragma once

#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

namespace {

/// Two codes of four bits.
struct Nibbles {
  uint8_t byte;
};

/// Dimensions that lie in one T.
template <class T>
inline constexpr int kTogether = 1;
template <>
inline constexpr int kTogether<Nibbles> = 2;

/// Elements from one position's values to the next.
template <class T>
inline int64_t row_pitch(int64_t stride) {
  return kTogether<T> == 1 ? stride : (stride + 31) / 32 * 16;
}

/// Keys or values by the type that they are stored in. T: float, uint16_t for half precision, int8_t,
/// Nibbles.
template <class T>
struct Stored {
  const T* at;
  int64_t dim, stride;  // dimensions; of a row of values
  int64_t next;         // bytes from this tile to the one that is asked for meanwhile, 0: none
  const float* scales;  // [groups][64] or null
  int64_t group;        // dimensions of a group; all of them where there are no scales
};

template <class T>
Stored<T> stored_keys(const AttendTile& tile) {
  const auto* at = static_cast<const T*>(tile.keys);
  const int64_t next = tile.next == nullptr
                           ? 0
                           : static_cast<const uint8_t*>(tile.next) - static_cast<const uint8_t*>(tile.keys);
  return {at,   tile.dim,        tile.value_stride,
          next, tile.key_scales, tile.key_scales ? tile.key_group : tile.dim};
}

template <class T>
Stored<T> stored_values(const AttendTile& tile) {
  Stored<T> values = stored_keys<T>(tile);
  values.at = static_cast<const T*>(tile.values);
  values.scales = tile.value_scales;
  values.group = tile.value_scales ? tile.value_group : tile.value_stride;
  return values;
}

/// call.operator()<T>() for the type of the keys or values.
template <class Isa, class Call>
void with_type(KvType type, const Call& call) {
  if constexpr (Isa::kCodes) {
    if (type == KvType::kCodes8) return call.template operator()<int8_t>();
    if (type == KvType::kCodes4) return call.template operator()<Nibbles>();
  }
  if (type == KvType::kF16) return call.template operator()<uint16_t>();
  call.template operator()<float>();
}

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

/// What queries add values to, and by which weights.
struct Adding {
  float* acc;            // [N, stride of the values]
  const float* weights;  // [N, 64]
};

/// Keys that all N queries see are added together, the others before and after them alone: each query still
/// adds its keys in order. `weights` [N, 64]; dimensions `dims` of the head.
template <class Isa, int N, class T>
void values_of(const Stored<T>& values, const AttendQueries& queries, const float* weights, int i,
               Range dims) {
  Range all = {queries.first[i], queries.last[i]};
  bool alike = true;
  for (int n = 1; n < N; ++n) {
    const Range keys = {queries.first[i + n], queries.last[i + n]};
    alike = alike && keys.first == all.first && keys.last == all.last;
    all.first = keys.first > all.first ? keys.first : all.first;
    all.last = keys.last < all.last ? keys.last : all.last;
  }
  const auto adding = [&](int n) {
    return Adding{queries.acc + (i + n) * values.stride, weights + n * kTileKeys};
  };
  const auto add_alone = [&](int n, int64_t first, int64_t last) {
    if (first < last) Isa::template add<1>(values, adding(n), {first, last}, dims);
  };
  if (!alike && all.first >= all.last) {
    for (int n = 0; n < N; ++n) add_alone(n, queries.first[i + n], queries.last[i + n]);
    return;
  }
  if (!alike)
    for (int n = 0; n < N; ++n) add_alone(n, queries.first[i + n], all.first);
  if (all.first < all.last) Isa::template add<N>(values, adding(0), all, dims);
  if (!alike)
    for (int n = 0; n < N; ++n) add_alone(n, all.last, queries.last[i + n]);
}

/// Scales of values are taken into the weights.
template <class Isa, int N, class T>
void values_by_groups(const Stored<T>& values, const AttendQueries& queries, int i) {
  const float* weights = queries.scores + static_cast<int64_t>(i) * kTileKeys;
  if (values.scales == nullptr) return values_of<Isa, N>(values, queries, weights, i, {0, values.stride});
  float scaled[N * kTileKeys];
  for (int64_t d = 0, g = 0; d < values.stride; d += values.group, ++g) {
    for (int n = 0; n < N; ++n)
      Isa::times(weights + n * kTileKeys, values.scales + g * kTileKeys, scaled + n * kTileKeys);
    const int64_t end = d + values.group < values.stride ? d + values.group : values.stride;
    values_of<Isa, N>(values, queries, scaled, i, {d, end});
  }
}

template <class Isa>
void attend_tile(const AttendTile& tile, const AttendQueries& queries) {
  int last = 0;
  for (int i = 0; i < queries.n; ++i)
    if (queries.first[i] < queries.last[i] && queries.last[i] > last) last = queries.last[i];
  if (last == 0) return;
  const int panels = (last + kPanelKeys - 1) / kPanelKeys;
  // Scores are powers of two, so that weights are exp2 of their differences.
  const bool capped = queries.softcap > 0;
  const float scale = capped ? queries.scale : queries.scale * kLog2E;
  with_type<Isa>(tile.key_type, [&]<class T>() {
    const Stored<T> keys = stored_keys<T>(tile);
    in_groups<Isa::kQueries>(queries.n,
                             [&]<int N>(int i) { Isa::template score<N>(keys, queries, scale, i, panels); });
  });
  if (capped) {
    const int64_t n = int64_t{queries.n} * kTileKeys;
    Isa::softcap(queries.scores, n, queries.softcap);
    for (int64_t k = 0; k < n; ++k) queries.scores[k] *= kLog2E;
  }
  for (int i = 0; i < queries.n; ++i)
    if (queries.first[i] < queries.last[i]) Isa::weigh(queries, i, tile.value_stride);
  with_type<Isa>(tile.value_type, [&]<class T>() {
    const Stored<T> values = stored_values<T>(tile);
    in_groups<Isa::kQueries>(queries.n, [&]<int N>(int i) { values_by_groups<Isa, N>(values, queries, i); });
  });
}

}  // namespace

}  // namespace penstock::exec::cpu
