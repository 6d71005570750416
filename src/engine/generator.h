// What everything above the engine knows of it: submit a job of token ids, get token ids back, cancel.
// Implemented by Engine and by the scripted generator of the tests. Thread-safe. No strings: text begins
// above.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/prefix_index.h"
#include "engine/token_guide.h"
#include "ops/sample.h"
#include "speculate/sources.h"

namespace penstock::engine {

/// Who is served first when not all can be; the most urgent first.
enum class Priority : uint8_t { kRealtime, kBatch, kBackground };

/// One generation.
struct Job {
  std::vector<int32_t> prompt;  // at least one id
  int32_t max_tokens = 0;       // at least 1; cut by the engine to the room that the context leaves
  ops::SampleParams params;     // its bias range is set by the engine
  std::vector<ops::Bias> biases;
  std::vector<int32_t> stop_ids;  // a drawn stop id ends the sequence and is not delivered
  int32_t top_logprobs = -1;      // alternatives with each token; -1: not even its own logprob
  Priority priority = Priority::kRealtime;
  uint64_t tenant = 0;    // those of one class are served in turn
  bool use_cache = true;  // begin with blocks that others have computed, and leave its own to others
  int32_t max_draft_tokens = INT32_MAX;     // at most the engine's
  std::optional<speculate::Use> draft_use;  // absent: the engine's
  uint64_t cache_salt = 0;                  // blocks are shared among jobs with the same one only
  std::optional<std::chrono::steady_clock::time_point> deadline;  // ends with kExpired when it has passed
};

struct Token {
  int32_t id = -1;
  float logprob = 0;  // natural log, of the model's own distribution
  std::vector<ops::TopToken> top;
};

enum class Finish : uint8_t { kStop, kLength, kCancelled, kExpired, kFailed };

/// How a job was served; the source of usage, timings and the response's receipt.
struct Receipt {
  Finish finish = Finish::kFailed;
  int32_t stop_id = -1;  // the id that ended it, -1 none
  std::string error;     // for kFailed
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;  // delivered ids
  int32_t cached_tokens = 0;      // of the prompt, found computed when it first began
  int32_t drafted = 0;            // tokens that were proposed
  int32_t accepted = 0;           // and drawn
  int32_t draft_steps = 0;        // steps that checked some
  int32_t masks = 0;              // of its draws
  double mask_ms = 0;             // that they took, beside forwards and each other
  int32_t preemptions = 0;        // times it had to give up its blocks and compute them again
  int32_t max_batch_width = 0;    // most sequences in a step that this one shared
  double queue_ms = 0, prefill_ms = 0, decode_ms = 0;
  std::string executor;
};

/// Receives one job's results on the engine thread: must neither block nor throw. on_finish is the last call,
/// made once.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void on_tokens(std::span<const Token> tokens) = 0;
  virtual void on_finish(const Receipt& receipt) = 0;
};

/// Counters since start and gauges of now.
struct Counters {
  uint64_t submitted = 0, finished = 0, cancelled = 0, expired = 0, failed = 0, refused = 0, preempted = 0;
  uint64_t prompt_tokens = 0, completion_tokens = 0, steps = 0;  // prompt tokens that were computed
  uint64_t running = 0, waiting = 0;
  uint64_t blocks_used = 0, blocks_kept = 0, blocks_total = 0;  // kept: unused, for what they hold
  uint64_t blocks_restored = 0;                                 // from the disk
  cache::PrefixStats prefix;
  std::array<speculate::SourceStats, speculate::kSources> drafts;
  uint64_t draft_model_failures = 0;
  uint64_t max_batch_width = 0;
  uint64_t masks = 0;       // of constrained draws
  double mask_seconds = 0;  // that they took
};

/// One of the answers to a job.
struct Member {
  uint64_t seed = 0;
  std::shared_ptr<Sink> sink;
  std::unique_ptr<TokenGuide> guide;  // null: any token may follow
};

/// What is to become of what was computed for a text.
struct CacheWish {
  enum class Kind : uint8_t {
    kLook,  // nothing
    kPark,  // it is given to the disk, safe from a crash, and its memory given back where nobody else uses it
    kFetch,  // it is brought back from the disk, as far as there is room
    kDrop,   // it is removed from memory and disk, but for its first `keep_tokens`
  };
  Kind kind = Kind::kLook;
  std::vector<int32_t> tokens;
  uint64_t salt = 0;  // as Job::cache_salt
  int32_t keep_tokens = 0;
};

/// Where the text stands afterwards: tokens from its first on.
struct CacheState {
  int32_t memory_tokens = 0, disk_tokens = 0;
};
using OnCache = std::function<void(std::optional<CacheState>)>;

class Generator {
 public:
  virtual ~Generator() = default;

  /// Returns the job's id. Throws Error(kOverloaded) when the queue is full, kContextLength when the prompt
  /// does not fit, kInvalidRequest for ids outside the vocabulary, kUnavailable after stop()
  /// or when the device is lost.
  uint64_t submit(Job job, std::shared_ptr<Sink> sink) {
    std::vector<Member> member;
    member.push_back({job.params.seed, std::move(sink)});
    return submit(std::move(job), std::move(member)).front();
  }

  /// The same job for each member, with its own seed and sink: they start together, and the prompt is
  /// computed once. Returns the id of each; throws as above, for all or none.
  virtual std::vector<uint64_t> submit(Job job, std::vector<Member> members) = 0;

  /// Ends the job at the next step boundary; its sink gets on_finish(kCancelled). Unknown and ended ids are
  /// ignored.
  virtual void cancel(uint64_t id) = 0;

  virtual Counters counters() const = 0;

  /// True while submit() would refuse any job for want of room.
  virtual bool is_full() const { return false; }

  /// Forgets what was computed for ended jobs, at the next step boundary, and gives its memory back; on the
  /// disk, what is not pinned.
  virtual void clear_cache() = 0;

  /// Likewise, but for the disk: what is there stays.
  virtual void trim_cache() { clear_cache(); }

  /// Answers once, on the engine's thread or, when it stops before, with nothing. Throws Error(kUnsupported)
  /// for what needs a disk cache where there is none.
  virtual void cache(CacheWish wish, OnCache on_done) = 0;

  /// Cancels what runs, joins the thread. Later submits throw.
  virtual void stop() = 0;
};

}  // namespace penstock::engine
