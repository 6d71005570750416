#include "tier/disk_index.h"

#include <algorithm>

namespace penstock::tier {

void DiskIndex::put(const BlockName& name, Entry entry) {
  erase(name);
  bytes_ += entry.file_bytes;
  entries_.emplace(name, Item{entry, by_use_.insert(by_use_.end(), name)});
}

void DiskIndex::erase(const BlockName& name) {
  const auto it = entries_.find(name);
  if (it == entries_.end()) return;
  bytes_ -= it->second.entry.file_bytes;
  by_use_.erase(it->second.place);
  entries_.erase(it);
}

void DiskIndex::touch(const BlockName& name) {
  const auto it = entries_.find(name);
  if (it != entries_.end()) by_use_.splice(by_use_.end(), by_use_, it->second.place);
}

const DiskIndex::Entry* DiskIndex::find(const BlockName& name) const {
  const auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second.entry;
}

void DiskIndex::pin(const BlockName& name, Time until) {
  pins_[name] = until;
}

bool DiskIndex::is_pinned(const BlockName& name, Time now) const {
  const auto it = pins_.find(name);
  return it != pins_.end() && it->second > now;
}

std::optional<BlockName> DiskIndex::oldest(Time now) const {
  const auto it = std::ranges::find_if(by_use_, [&](const BlockName& name) { return !is_pinned(name, now); });
  if (it == by_use_.end()) return std::nullopt;
  return *it;
}

}  // namespace penstock::tier
