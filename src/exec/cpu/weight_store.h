// The packed weights of one plan, each packed once however many operations name it. Filled by the loader
// thread, then read-only.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "exec/cpu/packed_matrix.h"
#include "models/plan.h"

namespace penstock::exec::cpu {

class WeightStore {
 public:
  WeightStore(const models::Plan& plan, const ops::WeightTable& table, ThreadPool& pool)
      : plan_(plan), table_(table), pool_(pool) {}

  /// Packs on first use. The pointer stays valid.
  const PackedMatrix* matrix(ops::WeightId id);

  /// A vector plus `offset` in every element; empty for kNoWeight.
  std::vector<float> vector(ops::WeightId id, float offset = 0) const;

  const ops::WeightTable& table() const { return table_; }

  /// The matrix as stored.
  const quant::Matrix& stored(ops::WeightId id) const { return table_[static_cast<size_t>(id)]; }

 private:
  const models::Plan& plan_;
  const ops::WeightTable& table_;
  ThreadPool& pool_;
  const MappedPages pages_;
  Slabs slabs_;
  std::map<ops::WeightId, std::unique_ptr<PackedMatrix>> packed_;
};

/// The weights of an operation that are multiplied with activations.
std::vector<ops::WeightId> matrices_of(const ops::Operation& operation);

}  // namespace penstock::exec::cpu
