#include "exec/cpu/weight_store.h"

namespace penstock::exec::cpu {

const PackedMatrix* WeightStore::matrix(ops::WeightId id) {
  auto& packed = packed_[id];
  if (packed == nullptr) {
    const std::string& name = plan_.weights[static_cast<size_t>(id)].name;
    packed = std::make_unique<PackedMatrix>(pack(stored(id), name, pool_, pages_, slabs_));
  }
  return packed.get();
}

std::vector<float> WeightStore::vector(ops::WeightId id, float offset) const {
  if (id == ops::kNoWeight) return {};
  std::vector<float> values = read_vector(stored(id));
  for (float& value : values) value += offset;
  return values;
}

std::vector<ops::WeightId> matrices_of(const ops::Operation& operation) {
  if (const auto* in = std::get_if<ops::AttnIn>(&operation))
    return {in->q.weight, in->k.weight, in->v.weight};
  if (const auto* project = std::get_if<ops::Project>(&operation)) return {project->linear.weight};
  if (const auto* mlp = std::get_if<ops::Mlp>(&operation))
    return {mlp->gate.weight, mlp->up.weight, mlp->down.weight};
  if (const auto* head = std::get_if<ops::Head>(&operation)) return {head->weight};
  return {};
}

}  // namespace penstock::exec::cpu
