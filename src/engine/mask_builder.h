// The masks of a step's constrained rows, computed by a few threads of its own while the forward runs. All
// calls come from the engine's thread. Threads begin with the first constrained row.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/sequence.h"
#include "exec/executor.h"

namespace penstock::engine {

/// A constrained row: its draws are `first_draw` and one behind each draft.
struct GuidedRow {
  Sequence* sequence = nullptr;
  size_t first_draw = 0;
  std::span<const int32_t> drafts;
};

class MaskBuilder {
 public:
  MaskBuilder(int32_t vocab, int max_threads);
  ~MaskBuilder();

  /// Begins with the masks of these rows, whose sequences and drafts stay as they are until finish().
  void start(std::vector<GuidedRow> rows);

  /// Waits for all of them, and helps. Without a start it does nothing.
  void finish();

  /// Gives the draws of those rows their masks.
  void apply(std::span<exec::SampleRow> draws) const;
  std::span<const uint32_t> words() const { return words_; }

  struct Error {
    Sequence* sequence = nullptr;
    std::string text;
  };
  /// Of guides that failed; their draws have no mask and must not be delivered.
  const std::vector<Error>& errors() const { return errors_; }
  /// Masks that were computed, and the processor time of it.
  uint64_t n_masks() const { return n_masks_; }
  double ms() const { return ms_; }

 private:
  struct Work {
    GuidedRow row;
    size_t first_mask = 0;
    std::vector<bool> is_free;  // [draws] any token may follow
    std::string error;
    double ms = 0;
  };

  void begin_threads(size_t n);
  void take_work();
  void compute(Work& work);

  const size_t n_words_;
  const size_t max_threads_;
  std::vector<uint32_t> words_;  // [masks, n_words]
  std::vector<Work> work_;
  std::vector<Error> errors_;
  uint64_t n_masks_ = 0;
  double ms_ = 0;
  bool started_ = false;

  std::atomic<size_t> next_ = 0;  // of work_
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  uint64_t round_ = 0;    // of start()
  size_t n_working_ = 0;  // threads that have not seen the end of the round
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::engine
