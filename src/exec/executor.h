// One model on one device. Used by the engine thread only, except measure and load (loader thread). Inputs
// are plain data, copied before a call returns; outputs belong to the executor until release().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/plan.h"
#include "ops/kv_format.h"
#include "ops/sample.h"

namespace penstock::exec {

/// In Batch::tokens: "the token that the slot drew last, known only to the device".
inline constexpr int32_t kOnDevice = -1;

/// Picks the arithmetic of a token; the size of a batch never does.
enum class Role : uint8_t { kPrompt, kGenerated };

/// One sequence in one step.
struct Row {
  int32_t slot = 0;
  Role role = Role::kPrompt;
  int32_t first_token = 0, n_tokens = 0;  // range in Batch::tokens
  int32_t position = 0;                   // of the first token
  int32_t n_logits = 0;                   // logits are wanted of the last n_logits tokens
};

/// Block `index` of a slot's table in a KV group becomes `block`; -1: released, never read again.
struct TableEdit {
  int32_t slot = 0, kv_group = 0, index = 0, block = -1;
};

/// What block `from` holds is copied to block `to` of the same KV group.
struct BlockCopy {
  int32_t kv_group = 0, from = 0, to = 0;
};

/// One ragged step. Rows of role kGenerated come first. Logit rows are numbered in row order.
struct Batch {
  std::span<const Row> rows;
  std::span<const int32_t> tokens;  // [T] ids or kOnDevice
  std::span<const TableEdit> table_edits;
  std::span<const BlockCopy> copies = {};  // before the step's own writes
};

inline constexpr int32_t kNoDraft = -1;

/// Draws from one logit row, or hands it to the host. A drawn token becomes the slot's last token and is
/// counted.
struct SampleRow {
  int32_t logit_row = 0;
  ops::SampleParams params;
  int32_t top_logprobs = -1;  // -1: no logprob either
  bool host_logits = false;   // copy the logits out instead of drawing
  int32_t draft = kNoDraft;   // draws only if the row before it, of the same slot, drew this token
};

struct SampleBatch {
  std::span<const SampleRow> rows;
  std::span<const ops::Bias> biases;
};

/// Whole texts, for a plan that encodes. What one becomes does not depend on the others.
struct TextBatch {
  std::span<const int32_t> lengths;     // tokens of each text
  std::span<const int32_t> tokens;      // [T] ids, text after text
  std::span<const int32_t> types = {};  // [T] token types; empty: all 0
};

enum class RowError : uint8_t { kNone, kNotFinite };

/// Results, one entry for each SampleRow.
struct StepOutput {
  std::span<const int32_t> tokens;  // [S] drawn, -1 for host_logits, a failed row, a draft not drawn
  std::span<const float> logprobs;  // [S]
  std::span<const std::vector<ops::TopToken>> top;  // [S]
  std::span<const float> logits;                    // [rows with host_logits, vocab]
  std::span<const RowError> errors;                 // [S] a failed row fails alone
};

struct Limits {
  int32_t max_slots = 8;           // sequences that hold state at the same time, texts of one encode()
  int32_t max_batch_tokens = 512;  // tokens of one step
  int32_t max_context = 0;         // positions of one sequence
  std::vector<int32_t> n_blocks;   // blocks of each KV group
  int32_t threads = 0;             // compute threads, 0: as many as the process may use
  bool exact = false;              // no quantised activations, float32 cache unless kv_format says otherwise
  ops::KvFormat kv_format = ops::KvFormat::kPlain;
  /// Ids from here on pad the head and are never drawn; null: none do. Asked at a draw, never while loading:
  /// the tokenizer that knows is made meanwhile.
  std::function<int32_t()> vocab_tokens;
};

/// Bytes that load() will hold, for admission.
struct MemoryPlan {
  size_t weight_bytes = 0;
  std::vector<size_t> block_bytes;  // of one block of each KV group
  size_t slot_bytes = 0;
  size_t scratch_bytes = 0;
  size_t device_free_bytes = 0;  // of a device with memory of its own; 0: all of it is the machine's memory
};

/// What an executor can do and promises.
struct Caps {
  std::string name;              // "cpu", "cuda", "mlx"
  std::string detail;            // "avx2, 2 threads, int8 activations"
  int32_t block_tokens = 64;     // positions of one KV block
  int32_t steps_in_flight = 1;   // forwards that may be launched before the oldest is waited for
  int32_t max_draft_tokens = 0;  // proposed tokens behind a generated one, whose logits it can be asked for
  /// A row's bits do not depend on its batch, its neighbours or how its prompt was cut.
  bool bit_stable = false;
  /// Nor on its role, so that what was computed for a generated token serves as a prompt's, and a prompt may
  /// begin anywhere within a copied block.
  bool role_blind = false;
  /// What decides a block's bytes beside model and tokens: layout, precision, kernels. Executors with the
  /// same one can go on from each other's blocks. Empty: it cannot move blocks. Known after load().
  std::string block_format;
};

/// Of what write_block() is given. Throws Error(kInternal) where it is not the block's size.
void require_block_bytes(size_t got, size_t expected);

/// Blocks of each KV group for a plan that encodes: the keys and values of the texts of one encode().
std::vector<int32_t> text_blocks(const models::Plan& plan, const Limits& limits, int32_t block_tokens);

/// Throws Error(kInternal) for texts that the limits of an executor or its plan do not allow.
void require_texts(const models::Plan& plan, const Limits& limits, const TextBatch& batch);

/// forward() is for plans that generate. Throws Error(kUnsupported).
void require_forward(const models::Plan& plan);

/// Of an executor that does not encode. Throws Error(kUnsupported) naming what it lacks.
void require_generating(const models::Plan& plan, const std::string& executor);

using Ticket = uint64_t;

class Executor {
 public:
  virtual ~Executor() = default;

  virtual const Caps& caps() const = 0;

  /// Throws Error(kUnsupported) naming the operation or weight format that this executor lacks.
  virtual MemoryPlan measure(const models::Plan& plan, const ops::WeightTable& weights,
                             const Limits& limits) = 0;

  /// Takes the whole plan or throws as measure does. `plan` and `weights` must outlive the executor.
  virtual void load(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) = 0;

  /// Starts a sequence in the slot: forgets its table, counts `prompt` for the repetition penalty.
  /// `generated`: what it had drawn when it was stopped to make room; counted as drawn, the last one is the
  /// slot's last token. The first row of the slot may begin behind blocks that hold its beginning.
  virtual void reset_slot(int32_t slot, std::span<const int32_t> prompt,
                          std::span<const int32_t> generated) = 0;

  /// What these blocks hold is not wanted any more, and no step in flight touches them. Their memory may go
  /// back to the system until they are written again.
  virtual void drop_blocks(int32_t /*kv_group*/, std::span<const int32_t> /*blocks*/) {}

  /// Enqueues a step; never waits for the device.
  virtual Ticket forward(const Batch& batch) = 0;

  /// Enqueues drawing behind the forward; at most once a ticket. Needed only where a row has logits.
  virtual void sample(Ticket ticket, const SampleBatch& batch) = 0;

  /// Waits for forward and sample of the ticket. A failed step throws here; its rows are lost until their
  /// slots are reset, others are not, and release() is still due. Any call throws Error(kUnavailable) once
  /// the device is lost to this process.
  virtual const StepOutput& wait(Ticket ticket) = 0;

  virtual void release(Ticket ticket) = 0;

  /// Computes the texts and waits for them; for a plan that encodes, which takes no forward(). The result
  /// [texts, Plan::pooled_width] is valid until the next call. Throws Error(kUnsupported) where measure()
  /// takes no such plan.
  virtual std::span<const float> encode(const TextBatch& batch);

  /// What a block of a KV group holds, MemoryPlan::block_bytes. No step in flight may write to it. These
  /// throw Error(kUnsupported) where Caps::block_format is empty.
  virtual std::vector<std::byte> read_block(int32_t kv_group, int32_t block);
  /// The block holds that from the next forward on. No step in flight may use it.
  virtual void write_block(int32_t kv_group, int32_t block, std::span<const std::byte> bytes);
};

}  // namespace penstock::exec
