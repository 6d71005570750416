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

namespace {

// One for each operation, so that a new one does not compile until it is said here.
std::vector<ops::WeightId> matrices(const ops::Embed&) {
  return {};  // read row by row from the file
}
std::vector<ops::WeightId> matrices(const ops::AttnIn& op) {
  return {op.q.weight, op.k.weight, op.v.weight};
}
std::vector<ops::WeightId> matrices(const ops::Attend&) {
  return {};
}
std::vector<ops::WeightId> matrices(const ops::Project& op) {
  return {op.linear.weight};
}
std::vector<ops::WeightId> matrices(const ops::Mlp& op) {
  if (!op.gated()) return {op.up.weight, op.down.weight};
  return {op.gate.weight, op.up.weight, op.down.weight};
}
std::vector<ops::WeightId> matrices(const ops::Head& op) {
  return {op.weight};
}
std::vector<ops::WeightId> matrices(const ops::Pool& op) {
  std::vector<ops::WeightId> all;
  for (const ops::Dense& dense : op.dense) all.push_back(dense.linear.weight);
  return all;
}

}  // namespace

std::vector<ops::WeightId> matrices_of(const ops::Operation& operation) {
  return std::visit([](const auto& op) { return matrices(op); }, operation);
}

}  // namespace penstock::exec::cpu
