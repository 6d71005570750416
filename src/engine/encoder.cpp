#include "engine/encoder.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "base/error.h"

namespace penstock::engine {

using base::Code;
using base::Error;

Encoder::Encoder(std::unique_ptr<exec::Executor> executor, const models::Plan& plan, EncoderOptions options)
    : executor_(std::move(executor)), plan_(plan), options_(options), thread_([this] { run(); }) {}

Encoder::~Encoder() {
  stop();
}

void Encoder::check(const EncodeJob& job) const {
  if (job.texts.empty()) throw Error(Code::kInvalidRequest, "[engine.encode] expected texts; got none");
  for (const EncodeJob::Text& text : job.texts) {
    if (text.ids.empty())
      throw Error(Code::kInvalidRequest, "[engine.encode] expected a text of at least one token; got none");
    if (text.ids.size() > static_cast<size_t>(options_.context_length)) {
      throw Error(Code::kContextLength, "[engine.encode] expected at most " +
                                            std::to_string(options_.context_length) + " tokens; got " +
                                            std::to_string(text.ids.size()));
    }
    for (const int32_t id : text.ids) {
      if (id >= 0 && id < plan_.vocab) continue;
      throw Error(Code::kInvalidRequest, "[engine.encode] expected token ids below " +
                                             std::to_string(plan_.vocab) + "; got " + std::to_string(id));
    }
  }
}

uint64_t Encoder::encode(EncodeJob job, OnEncoded on_done) {
  check(job);
  auto pending = std::make_shared<Pending>();
  for (const EncodeJob::Text& text : job.texts)
    pending->result.prompt_tokens += static_cast<int32_t>(text.ids.size());
  pending->result.values.resize(job.texts.size() * static_cast<size_t>(width()));
  pending->job = std::move(job);
  pending->on_done = std::move(on_done);
  const std::lock_guard lock(mutex_);
  if (stopped_)
    throw Error(Code::kUnavailable, "[engine.encode] expected a running encoder; got one that stopped");
  if (jobs_.size() >= static_cast<size_t>(options_.max_queue)) {
    ++counters_.refused;
    throw Error(Code::kOverloaded, "[engine.encode] expected room in the queue; got " +
                                       std::to_string(jobs_.size()) + " jobs, the most that may wait");
  }
  ++counters_.submitted;
  pending->id = next_id_++;
  jobs_.push_back(pending);
  wake_.notify_one();
  return pending->id;
}

std::vector<uint64_t> Encoder::submit(Job, std::vector<Member>) {
  throw Error(Code::kUnsupported,
              "[engine.submit] expected a model that generates text; got one that encodes");
}

void Encoder::cache(CacheWish, OnCache) {
  throw Error(Code::kUnsupported, "[engine.cache] expected a model with a cache; got one that encodes texts");
}

void Encoder::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  for (const PendingPtr& job : jobs_) {
    if (job->id == id) job->cancelled = true;
  }
  wake_.notify_one();
}

Counters Encoder::counters() const {
  const std::lock_guard lock(mutex_);
  Counters now = counters_;
  now.running = static_cast<uint64_t>(
      std::count_if(jobs_.begin(), jobs_.end(), [](const PendingPtr& job) { return job->next > 0; }));
  now.waiting = jobs_.size() - now.running;
  return now;
}

bool Encoder::is_full() const {
  const std::lock_guard lock(mutex_);
  return jobs_.size() >= static_cast<size_t>(options_.max_queue);
}

void Encoder::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Encoder::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
    end_jobs(lock);
    if (stopped_ && jobs_.empty()) return;
    const std::vector<Item> step = next_step_locked();
    if (step.empty()) continue;
    lock.unlock();
    compute(step);
    lock.lock();
    ++counters_.steps;
    counters_.max_batch_width = std::max<uint64_t>(counters_.max_batch_width, step.size());
  }
}

/// Nothing while it has to go on.
std::optional<Finish> Encoder::end_of(const Pending& job) const {
  if (job.cancelled) return Finish::kCancelled;
  if (!job.error.empty()) return Finish::kFailed;
  if (job.done == job.job.texts.size()) return Finish::kStop;
  if (stopped_) return Finish::kCancelled;
  if (job.job.deadline && *job.job.deadline <= Clock::now()) return Finish::kExpired;
  return std::nullopt;
}

void Encoder::end_jobs(std::unique_lock<std::mutex>& lock) {
  using Ms = std::chrono::duration<double, std::milli>;
  std::vector<PendingPtr> ended;
  std::deque<PendingPtr> going_on;
  const auto now = Clock::now();
  for (PendingPtr& job : jobs_) {
    const auto finish = end_of(*job);
    if (!finish) {
      going_on.push_back(std::move(job));
      continue;
    }
    job->result.finish = *finish;
    job->result.error = job->error;
    job->result.queue_ms = Ms(job->started.value_or(now) - job->received).count();
    job->result.compute_ms = Ms(now - job->started.value_or(now)).count();
    counters_.finished += *finish == Finish::kStop;
    counters_.cancelled += *finish == Finish::kCancelled;
    counters_.expired += *finish == Finish::kExpired;
    counters_.failed += *finish == Finish::kFailed;
    ended.push_back(std::move(job));
  }
  jobs_.swap(going_on);
  if (ended.empty()) return;
  lock.unlock();
  for (const PendingPtr& job : ended) job->on_done(std::move(job->result));
  ended.clear();
  lock.lock();
}

/// One text of each job in turn, as many as a step takes.
std::vector<Encoder::Item> Encoder::next_step_locked() {
  std::vector<Item> step;
  int32_t room = options_.max_batch_tokens;
  const auto is_full = [&] { return step.size() >= static_cast<size_t>(options_.max_texts); };
  bool took_one = true;
  while (took_one && !is_full()) {
    took_one = false;
    for (const PendingPtr& job : jobs_) {
      if (is_full()) break;
      if (job->next == job->job.texts.size()) continue;
      const auto tokens = static_cast<int32_t>(job->job.texts[job->next].ids.size());
      if (tokens > room) continue;
      room -= tokens;
      if (!job->started) job->started = Clock::now();
      step.push_back({job, job->next++});
      took_one = true;
    }
  }
  for (const Item& item : step) {
    counters_.prompt_tokens += item.job->job.texts[item.text].ids.size();
    item.job->result.max_batch_width =
        std::max(item.job->result.max_batch_width, static_cast<int32_t>(step.size()));
  }
  return step;
}

/// What it writes of a job is nobody else's meanwhile.
void Encoder::compute(const std::vector<Item>& step) {
  std::vector<int32_t> lengths, ids, types;
  for (const Item& item : step) {
    const EncodeJob::Text& text = item.job->job.texts[item.text];
    lengths.push_back(static_cast<int32_t>(text.ids.size()));
    ids.insert(ids.end(), text.ids.begin(), text.ids.end());
    types.insert(types.end(), text.types.begin(), text.types.end());
    types.resize(ids.size());
  }
  const auto n = static_cast<size_t>(width());
  try {
    const std::span<const float> all = executor_->encode({lengths, ids, types});
    for (size_t i = 0; i < step.size(); ++i) {
      const auto values = all.subspan(i * n, n);
      Pending& job = *step[i].job;
      std::ranges::copy(values, job.result.values.begin() + static_cast<long>(step[i].text * n));
      if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
        job.error = "the model gave numbers that are not finite";
      ++job.done;
    }
  } catch (const std::exception& error) {
    for (const Item& item : step) item.job->error = error.what();
  }
}

}  // namespace penstock::engine
