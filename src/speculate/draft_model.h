// A smaller model that proposes tokens for several sequences at once: what it has not seen of them, then a
// forward of one token each for every further proposal. Owns its executor, blocks and tables; rolls back by
// position where its proposals were not drawn. It draws with the seeds and parameters of the sequences.
// Engine thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/sequence_table.h"
#include "exec/executor.h"

namespace penstock::speculate {

struct DraftModelOptions {
  int32_t max_seqs = 8;            // its executor's slots; a sequence has the same one here and in the target
  int32_t max_batch_tokens = 512;  // of one forward
  int32_t context_length = 0;      // positions of one sequence; behind them it proposes nothing
  std::vector<int32_t> n_blocks;   // of each KV group
  double relative_cost = 0.5;      // of a token, until it is measured: its weights' bytes by the target's
  std::string name;                // for the log
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class DraftModel {
 public:
  /// `executor` is loaded with `plan` for at least what `options` say.
  DraftModel(std::unique_ptr<exec::Executor> executor, const models::Plan& plan, DraftModelOptions options);

  struct Request {
    uint64_t id = 0;  // of the sequence
    int32_t slot = 0;
    std::span<const int32_t> tokens;  // all so far: those that follow are proposed
    int32_t n_prompt = 0;             // of them, from the first
    const ops::SampleParams* params = nullptr;
    std::span<const ops::Bias> biases;
    int32_t n = 0;                           // wanted, at least 1
    std::vector<int32_t>* drafts = nullptr;  // receives at most as many, in place of what it held
  };

  /// What a call took.
  struct Work {
    int32_t forwards = 0;
    int32_t fed = 0;  // tokens of those forwards
    double ms = 0;
  };

  /// Fills the drafts; a sequence of which more than a few tokens were not seen gets none. What fails is
  /// logged and counted; its sequences get no more proposals, nobody after several failures in a row. Never
  /// throws.
  Work propose(std::span<Request> requests);

  /// Computes of what was not seen of all sequences together at most so many tokens, in one forward; a few of
  /// each are left for propose(). Fails as propose() does.
  Work catch_up(std::span<Request> requests, int32_t most_tokens);

  /// Tokens of the sequence that it would have to compute before it can propose.
  int32_t unseen(uint64_t id, int32_t slot, std::span<const int32_t> tokens) const;
  /// False for a sequence that it failed for or that does not fit, and for all when it is off.
  bool can(uint64_t id, int32_t slot, size_t n_tokens) const;

  /// The sequence left its slot.
  void end(int32_t slot);

  bool is_off() const { return off_; }
  uint64_t failures() const { return failures_; }
  const DraftModelOptions& options() const { return options_; }

  /// So many unseen tokens are fed together with the first proposal.
  static constexpr int32_t kFewTokens = 18;

 private:
  struct Slot {
    uint64_t id = 0;  // 0: nobody's
    cache::SequenceTable table;
    std::vector<int32_t> fed;  // [positions] tokens whose keys are in the blocks
    bool is_new = true;        // the executor has not heard of it
    bool failed = false;
  };
  /// One row of a forward that is being made.
  struct Feed {
    Request* request = nullptr;
    std::vector<int32_t> tokens;
    bool draws = false;
  };

  double ms_since(std::chrono::steady_clock::time_point start) const;
  size_t seen(const Slot& slot, std::span<const int32_t> tokens) const;
  bool open(const Request& request);
  bool make_room(Slot& slot, int32_t slot_index, int32_t end);
  std::vector<Feed> first_feeds(std::span<Request> requests);
  void recount(const Request& request, Slot& slot);
  /// False when it failed; what was drawn is in the requests' drafts.
  bool forward(const std::vector<Feed>& feeds, exec::Role role);
  void run(const std::vector<Feed>& feeds, exec::Role role);
  void take(const std::vector<Feed>& feeds, const exec::StepOutput& output);
  void fail(const std::vector<Feed>& feeds, const std::string& error, bool lost);

  const std::unique_ptr<exec::Executor> executor_;
  const DraftModelOptions options_;
  const int32_t vocab_;
  cache::Groups groups_;
  std::vector<Slot> slots_;
  std::vector<cache::TableChange> changes_;
  std::vector<exec::TableEdit> edits_;
  bool off_ = false;
  uint64_t failures_ = 0;
  int32_t failures_in_a_row_ = 0;
};

}  // namespace penstock::speculate
