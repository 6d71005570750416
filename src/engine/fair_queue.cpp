#include "engine/fair_queue.h"

#include <algorithm>
#include <tuple>

namespace penstock::engine {

Priority aged(const WaitingJob& job, std::chrono::steady_clock::time_point now) {
  const int64_t steps = now < job.arrived ? 0 : (now - job.arrived) / kAging;
  return static_cast<Priority>(std::max<int64_t>(0, static_cast<int64_t>(job.priority) - steps));
}

FairQueue::Tenant& FairQueue::tenant_of(const WaitingJob& job) {
  Tenant& tenant = tenants_[job.tenant];
  // Who comes back does not get what it left unused.
  const bool waits = std::ranges::any_of(tenant.lines, [](const auto& line) { return !line.second.empty(); });
  if (!waits) tenant.served = std::max(tenant.served, now_served_);
  return tenant;
}

void FairQueue::push(const WaitingJob& job) {
  tenant_of(job).lines[job.priority].push_back({job, false});
  ++size_;
}

void FairQueue::push_back_again(const WaitingJob& job) {
  std::deque<Place>& line = tenant_of(job).lines[job.priority];
  const auto behind =
      std::ranges::find_if(line, [&](const Place& p) { return !p.again || p.job.id > job.id; });
  line.insert(behind, {job, true});
  ++size_;
}

std::vector<WaitingJob> FairQueue::first(size_t n, Time now) const {
  struct Cursor {
    const std::deque<Place>* line;
    int64_t* served;  // of its tenant, in `served`
    size_t at = 0;
  };
  std::map<uint64_t, int64_t> served;
  std::vector<Cursor> cursors;
  for (const auto& [id, tenant] : tenants_) {
    served[id] = tenant.served;
    for (const auto& [priority, line] : tenant.lines) {
      if (!line.empty()) cursors.push_back({&line, &served[id]});
    }
  }
  const auto rank = [now](const Cursor& cursor) {
    const Place& head = (*cursor.line)[cursor.at];
    return std::tuple{aged(head.job, now), !head.again, *cursor.served, head.job.id};
  };
  std::vector<WaitingJob> jobs;
  while (jobs.size() < n && !cursors.empty()) {
    const auto best = std::ranges::min_element(cursors, {}, rank);
    const Place& head = (*best->line)[best->at];
    jobs.push_back(head.job);
    if (!head.again) *best->served += head.job.cost;
    if (++best->at == best->line->size()) cursors.erase(best);
  }
  return jobs;
}

void FairQueue::remove(uint64_t id, bool started) {
  for (auto& [name, tenant] : tenants_) {
    for (auto& [priority, line] : tenant.lines) {
      const auto it = std::ranges::find_if(line, [&](const Place& p) { return p.job.id == id; });
      if (it == line.end()) continue;
      if (started && !it->again) {
        now_served_ = std::max(now_served_, tenant.served);
        tenant.served += it->job.cost;
      }
      line.erase(it);
      --size_;
      std::erase_if(tenants_, [this](const auto& entry) {
        return entry.second.served <= now_served_ &&
               std::ranges::all_of(entry.second.lines, [](const auto& l) { return l.second.empty(); });
      });
      return;
    }
  }
}

}  // namespace penstock::engine
