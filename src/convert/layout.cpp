#include "convert/layout.h"

#include <map>

#include <fmt/format.h>

#include "base/json.h"
#include "tensor/safetensors.h"

namespace penstock::convert {
namespace {

std::vector<std::vector<size_t>> group_items(std::span<const Item> items, uint64_t shard_bytes) {
  std::vector<std::vector<size_t>> groups;
  uint64_t bytes = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (groups.empty() || bytes + items[i].size_bytes() > shard_bytes) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(i);
    bytes += items[i].size_bytes();
  }
  return groups;
}

uint64_t part_bytes(const Item& item, const Part& part) {
  return static_cast<uint64_t>(item.rows) * part.row_bytes;
}

std::string head_of(std::span<const Item> items, const std::vector<size_t>& group) {
  std::vector<tensor::TableEntry> entries;
  for (const size_t i : group) {
    for (const Part& part : items[i].parts)
      entries.push_back({part.name, part.type, part.shape, part_bytes(items[i], part)});
  }
  return tensor::safetensors_head(entries, {{"format", "mlx"}});
}

}  // namespace

Layout lay_out(std::span<const Item> items, uint64_t shard_bytes) {
  Layout layout;
  layout.places.resize(items.size());
  const auto groups = group_items(items, shard_bytes);
  std::map<std::string, std::string> files;
  for (size_t s = 0; s < groups.size(); ++s) {
    Shard shard;
    shard.name = groups.size() == 1 ? "model.safetensors"
                                    : fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, groups.size());
    shard.head = head_of(items, groups[s]);
    shard.size_bytes = shard.head.size();
    for (const size_t i : groups[s]) {
      layout.places[i].shard = s;
      for (const Part& part : items[i].parts) {
        layout.places[i].offsets.push_back(shard.size_bytes);
        shard.size_bytes += part_bytes(items[i], part);
        files[part.name] = shard.name;
      }
    }
    layout.tensor_bytes += shard.size_bytes - shard.head.size();
    layout.shards.push_back(std::move(shard));
  }
  if (groups.size() > 1) {
    layout.index =
        base::Json{{"metadata", {{"total_size", layout.tensor_bytes}}}, {"weight_map", files}}.dump(2) + "\n";
  }
  return layout;
}

}  // namespace penstock::convert
