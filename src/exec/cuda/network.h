// A plan on the device: its weights, its cache and the kernels of one pass of up to 64 tokens, enqueued in
// order, or of a prompt pass. Knows no tickets and no steps. Engine thread, except load (loader thread).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "exec/cuda/attention.h"
#include "exec/cuda/prompt.h"
#include "exec/cuda/weights.h"
#include "exec/executor.h"

namespace penstock::exec::cuda {

/// Sizes of one pass: what its launches depend on, so that equal ones can be replayed.
struct PassShape {
  int32_t tokens = 0;      // 1..64
  int32_t logit_rows = 0;  // 0..64
  int32_t partitions = 0;  // of 256 positions that its tokens may see

  auto operator<=>(const PassShape&) const = default;
};

/// A prompt pass: inputs lie behind each other in prompt_inputs(): tokens, slots and positions of each token,
/// the tokens whose logits are wanted, the query tiles.
struct PromptShape {
  int32_t tokens = 0, logit_rows = 0, tiles = 0;

  size_t ints() const { return static_cast<size_t>(tokens * 3 + logit_rows + tiles * 2); }
};

class Network {
 public:
  Network(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits);
  ~Network();

  /// What the constructor will allocate.
  static MemoryPlan measure(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits);

  /// Enqueues a pass over inputs(); its logits go to logits() [logit_rows, vocab].
  void run(const PassShape& shape, cudaStream_t stream);

  /// Most tokens of a prompt pass; 0 where prompts too run in passes of run().
  int32_t prompt_tokens() const { return prompts_.tokens; }
  int32_t* prompt_inputs() { return prompts_.inputs.as<int32_t>(); }

  /// Enqueues a prompt pass; its logits go to `logits` [logit_rows, vocab].
  void run_prompt(const PromptShape& shape, float* logits, cudaStream_t stream);

  PassView view() { return {inputs()->tokens, inputs()->slots, inputs()->positions}; }
  PassInputs* inputs() { return inputs_.as<PassInputs>(); }
  float* logits() { return logits_.as<float>(); }
  int32_t* last_tokens() { return last_tokens_.as<int32_t>(); }
  BlockTables tables() const { return tables_; }

 private:
  struct Vector {
    Memory memory;
    const float* data() const { return memory.as<float>(); }
  };
  /// Matrices that share an input: one stack where their classes are equal.
  struct Input {
    std::vector<const TileMatrix*> matrices;
    std::vector<int32_t> output_of;  // of each matrix: index of its prepared activations
    std::vector<TileShape> outputs;  // classes of activations
  };
  struct Norm {
    const float* weight = nullptr;
    float eps = 0;
  };
  struct AttnIn {
    ops::AttnIn op;
    Norm norm, q_norm, k_norm;
    Input input;
    const float* bias[3] = {};
    KvLayerPool pool;
  };
  struct Attend {
    ops::Attend op;
    KvLayerPool pool;
    int32_t exponent = 0;  // of all outputs
    const int32_t* exponents = nullptr;
    TileShape output;  // of the projection behind it
  };
  struct Project {
    const TileMatrix* matrix = nullptr;
    const float* bias = nullptr;
    Norm post_norm;
  };
  struct Mlp {
    ops::Mlp op;
    Norm norm;
    Input input;
    bool interleaved = false;
    float gate_bound = 0;  // where the multiplication gates: of outputs for rows of length 1
    bool gated = false;    // generated tokens, too
    const float *gate_bias = nullptr, *up_bias = nullptr;
    Project down;
  };
  struct Head {
    ops::Head op;
    Norm norm;
    const TileMatrix* matrix = nullptr;
  };
  struct Embed {
    ops::Embed op;
    const TileMatrix* matrix = nullptr;
  };
  using Operation = std::variant<Embed, AttnIn, Attend, Project, Mlp, Head>;

  void load_operation(const ops::Operation& operation, const ops::WeightTable& weights, WeightLoader& loader);
  const TileMatrix* stack(const Stack& parts, WeightLoader& loader);
  Input make_input(const std::vector<Stack>& stacks, WeightLoader& loader);
  const float* vector(ops::WeightId id, float offset = 0);
  Norm norm(const ops::Norm& norm);
  void allocate();
  KvLayerPool pool_of(int32_t kv_layer) const;

  void run(const Embed& op);
  void run(const AttnIn& op);
  void run(const Attend& op);
  void run(const Project& op);
  void run(const Mlp& op);
  void run(const Head& op);
  ResidualNorm take_pending(const Norm& norm);
  void prepare(const Norm& norm, const std::vector<TileShape>& outputs, int32_t rows,
               const int32_t* tokens_of, float gate_bound = 0);
  Partials normed_product(const TileMatrix& matrix, int32_t input, int32_t rows, int32_t buffer);
  ActivationOut activations(const TileShape& shape, int32_t index, int32_t rows) const;
  Activations normed(int32_t index) const;
  void allocate_gated(const TileShape& shape);
  void project(const Project& op, const Activations& x);
  void finish(const Head& op, int32_t rows, float* logits);
  HeadsArguments heads_of(const AttnIn& op, const std::vector<Partials>& sums) const;
  void turn_tables(PassView view, int32_t tokens);

  void run_prompt(const Embed& op);
  void run_prompt(const AttnIn& op);
  void run_prompt(const Attend& op);
  void run_prompt(const Project& op);
  void run_prompt(const Mlp& op);
  void run_prompt(const Head& op);
  void prepare_prompt(const Norm& norm, float gate_bound = 0);
  void bound_gate(Mlp& op);
  int32_t bound_values(const AttnIn& op);
  DenseActivations prompt_activations(int32_t cols) const;
  DenseActivations gated_activations(int32_t cols) const;
  Partials prompt_product(const TileMatrix& matrix, const DenseActivations& x, float* out);
  void project_prompt(const Project& op, const DenseActivations& x);
  std::vector<Partials> prompt_products(const Input& input);

  const models::Plan& plan_;
  const ops::WeightTable& weights_;
  const Limits limits_;
  WeightLoader* loader_ = nullptr;  // while loading
  std::vector<std::unique_ptr<DeviceMatrix>> matrices_;
  std::map<ops::WeightId, const TileMatrix*> single_;
  std::vector<Memory> vectors_, pools_;
  std::vector<KvLayerPool> layers_;
  std::map<int32_t, int32_t> value_exponents_;  // of kv layers
  std::vector<Operation> operations_;
  std::vector<Memory> rope_freqs_;
  std::vector<RopeTable> ropes_;

  Memory inputs_, last_tokens_, tables_memory_, hidden_, exponents_, q_, pieces_, piece_sums_, logits_,
      rope_memory_;
  Memory activations_[kMaxOutputs], sums_[kMaxOutputs + 1];
  Memory gated_[5];  // what gates store, for 0, 1, 2, 4 and 8 column tiles; padding is never written
  TileShape gated_shape_;
  BlockTables tables_;
  int32_t max_partitions_ = 1;

  struct Prompts {
    int32_t tokens = 0;
    Memory inputs, x, exponents, sums, pending;
  };
  Prompts prompts_;

  // Of the pass that is being enqueued.
  PromptShape prompt_;
  PassView prompt_view_;
  float* prompt_logits_ = nullptr;
  PassShape shape_;
  cudaStream_t stream_ = nullptr;
  Partials pending_;
  const Project* pending_of_ = nullptr;
  AttendArguments attended_;
  Activations x_;  // of the projection that comes next
};

}  // namespace penstock::exec::cuda
