#include "engine/mask_builder.h"

#include <algorithm>
#include <utility>

#include "engine/engine.h"

namespace penstock::engine {

MaskBuilder::MaskBuilder(int32_t vocab, int max_threads)
    : n_words_(exec::mask_words(vocab)), max_threads_(static_cast<size_t>(std::max(1, max_threads))) {}

MaskBuilder::~MaskBuilder() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void MaskBuilder::begin_threads(size_t n) {
  const uint64_t seen = round_;
  while (threads_.size() < std::min(n, max_threads_)) {
    threads_.emplace_back([this, seen] {
      uint64_t round = seen;
      std::unique_lock lock(mutex_);
      while (true) {
        wake_.wait(lock, [&] { return stopping_ || round != round_; });
        if (stopping_) return;
        round = round_;
        lock.unlock();
        take_work();
        lock.lock();
        if (--n_working_ == 0) done_.notify_all();
      }
    });
  }
}

void MaskBuilder::start(std::vector<GuidedRow> rows) {
  errors_.clear();
  work_.clear();
  n_masks_ = 0;
  ms_ = 0;
  started_ = !rows.empty();
  if (!started_) return;
  size_t n = 0;
  for (GuidedRow& row : rows) {
    const size_t n_draws = row.drafts.size() + 1;
    work_.push_back({std::move(row), n, std::vector<bool>(n_draws, true), {}, 0});
    n += n_draws;
  }
  words_.resize(n * n_words_);
  begin_threads(work_.size());
  {
    const std::lock_guard lock(mutex_);
    next_ = 0;
    n_working_ = threads_.size();
    ++round_;
  }
  wake_.notify_all();
}

void MaskBuilder::take_work() {
  for (size_t i; (i = next_++) < work_.size();) compute(work_[i]);
}

void MaskBuilder::compute(Work& work) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  TokenGuide& guide = *work.row.sequence->guide;
  size_t accepted = 0;
  try {
    for (size_t i = 0; i < work.is_free.size(); ++i) {
      const auto words = std::span(words_).subspan((work.first_mask + i) * n_words_, n_words_);
      work.is_free[i] = guide.is_done() || !guide.mask(words);
      if (i == work.row.drafts.size()) break;
      guide.accept(work.row.drafts[i]);
      ++accepted;
    }
    guide.rollback(accepted);
  } catch (...) {
    work.error = current_failure().text;
  }
  work.ms = ms_between(start, Clock::now());
}

void MaskBuilder::finish() {
  if (!std::exchange(started_, false)) return;
  take_work();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return n_working_ == 0; });
  for (const Work& work : work_) {
    ms_ += work.ms;
    const auto n = static_cast<uint64_t>(std::ranges::count(work.is_free, false));
    n_masks_ += n;
    Receipt& receipt = work.row.sequence->receipt;
    receipt.masks += static_cast<int32_t>(n);
    receipt.mask_ms += work.ms;
    if (!work.error.empty()) errors_.push_back({work.row.sequence, work.error});
  }
}

void MaskBuilder::apply(std::span<exec::SampleRow> draws) const {
  for (const Work& work : work_) {
    if (!work.error.empty()) continue;
    for (size_t i = 0; i < work.is_free.size(); ++i) {
      if (!work.is_free[i]) draws[work.row.first_draw + i].mask = static_cast<int32_t>(work.first_mask + i);
    }
  }
}

}  // namespace penstock::engine
