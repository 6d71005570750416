#include "exec/cuda/cuda_executor.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "exec/cuda/kv_layout.h"
#include "exec/cuda/pass_graphs.h"
#include "exec/cuda/sampling.h"
#include "exec/host_sampling.h"
#include "exec/plain_cache.h"
#include "ops/elementary.h"

namespace penstock::exec::cuda {

using base::Code;
using base::Error;

namespace {

constexpr int32_t kStepsInFlight = 2;

/// A block in pinned memory that the device may still be reading from.
struct Staging {
  Memory memory;
  cudaEvent_t read = nullptr;
};

/// Pinned blocks in turn. A block comes back when the copies from it are done.
class StagingRing {
 public:
  StagingRing(size_t blocks, size_t bytes) : ring_(blocks) {
    for (Staging& staging : ring_) {
      staging.memory = Memory::pinned(bytes);
      check(cudaEventCreateWithFlags(&staging.read, cudaEventDisableTiming), "create an event");
    }
  }
  ~StagingRing() {
    for (Staging& staging : ring_) cudaEventDestroy(staging.read);
  }
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  /// Copies `bytes` from `from` to the device behind everything on the stream.
  void copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
    Staging& staging = ring_[next_++ % ring_.size()];
    if (bytes > staging.memory.bytes()) {
      check(cudaStreamSynchronize(stream), "synchronize");
      staging.memory = Memory::pinned(bytes);
    }
    check(cudaEventSynchronize(staging.read), "wait for a copy");
    std::memcpy(staging.memory.as(), from, bytes);
    check(cudaMemcpyAsync(to, staging.memory.as(), bytes, cudaMemcpyHostToDevice, stream), "copy inputs");
    check(cudaEventRecord(staging.read, stream), "record");
  }

 private:
  std::vector<Staging> ring_;
  size_t next_ = 0;
};

struct Step {
  std::vector<LogitRow> rows;
  std::vector<SampleRow> draws;
  Memory results;  // pinned DrawResult of each draw, empty where the host drew
  cudaEvent_t done = nullptr;
  bool sampled = false, collected = false, on_host = false;
  OwnedOutput host;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<std::vector<ops::TopToken>> top;
  std::vector<RowError> errors;
  StepOutput view;
};

bool needs_host(const SampleRow& row, int32_t vocab) {
  const ops::SampleParams& p = row.params;
  const bool cut = p.temperature > 0 && (p.top_k > 0 || p.top_p < 1) && vocab > kMostCutVocab;
  const bool edited = p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
  // The device changes the logits of a row with penalties, so their logarithms are gone.
  return row.host_logits || row.top_logprobs > 0 || p.n_biases > 0 || cut ||
         (edited && row.top_logprobs == 0);
}

}  // namespace

DrawRow draw_row(const ops::SampleParams& params, int32_t logit_row, int32_t slot, int32_t position) {
  DrawRow row{logit_row, slot, position, params.temperature};
  row.top_k = params.top_k;
  row.top_p = params.top_p;
  if (params.min_p > 0) row.least = static_cast<float>(ops::natural_log(static_cast<double>(params.min_p)));
  row.repetition = params.repetition_penalty;
  row.presence = params.presence_penalty;
  row.frequency = params.frequency_penalty;
  row.seed = params.seed;
  return row;
}

struct CudaExecutor::State {
  const models::Plan* plan = nullptr;
  Limits limits;
  cudaStream_t stream = nullptr;
  std::unique_ptr<Network> network;
  std::unique_ptr<PassGraphs> graphs;
  std::unique_ptr<StagingRing> staging;
  std::vector<SlotTokens> tokens;  // of each slot
  Memory edits, draw_rows, draw_blocks, draw_cuts, draw_results, token_lists, step_logits, counts, prompts;
  int32_t max_partitions = 1;
  std::map<Ticket, Step> steps;
  Ticket next_ticket = 1;
  float* logits = nullptr;  // of the last step
  std::vector<Memory> spare_results;
  std::vector<cudaEvent_t> spare_events;

  ~State() {
    if (stream != nullptr) cudaStreamSynchronize(stream);
    for (auto& [ticket, step] : steps)
      if (step.done != nullptr) cudaEventDestroy(step.done);
    for (const cudaEvent_t event : spare_events) cudaEventDestroy(event);
    graphs.reset();
    network.reset();
    if (stream != nullptr) cudaStreamDestroy(stream);
  }

  Step& step_of(Ticket ticket) {
    const auto it = steps.find(ticket);
    if (it == steps.end())
      throw Error(Code::kInternal,
                  "[exec.cuda] expected the ticket of a step in flight; got " + std::to_string(ticket));
    return it->second;
  }

  void send_edits(std::span<const TableEdit> list) {
    if (list.empty()) return;
    std::vector<DeviceEdit> out;
    for (const TableEdit& e : list) {
      if (e.block >= limits.n_blocks[static_cast<size_t>(e.kv_group)] ||
          e.index >= network->tables().per_group)
        throw Error(Code::kInternal, "[exec.cuda.forward] block " + std::to_string(e.block) + " at index " +
                                         std::to_string(e.index) + " is outside its KV group");
      out.push_back({e.slot, e.kv_group, e.index, e.block});
    }
    const size_t bytes = out.size() * sizeof(DeviceEdit);
    if (edits.bytes() < bytes) {
      check(cudaStreamSynchronize(stream), "synchronize");
      edits = Memory::device(bytes * 2);
    }
    staging->copy(edits.as(), out.data(), bytes, stream);
    apply_edits(edits.as<DeviceEdit>(), static_cast<int32_t>(out.size()), network->tables(), stream);
  }

  /// Tokens of the rows of one role, in order.
  struct Item {
    int32_t token, slot, position;
    bool logits;
  };
  std::vector<Item> items(const Batch& batch, Role role) const {
    std::vector<Item> out;
    for (const Row& row : batch.rows) {
      if (row.role != role) continue;
      for (int32_t i = 0; i < row.n_tokens; ++i) {
        const int32_t id = batch.tokens[static_cast<size_t>(row.first_token + i)];
        if (id >= plan->vocab || id < kOnDevice || row.position + i >= std::max(limits.max_context, 1))
          throw Error(Code::kInternal, "[exec.cuda.forward] expected a token below " +
                                           std::to_string(plan->vocab) + " at a position below " +
                                           std::to_string(limits.max_context) + "; got " +
                                           std::to_string(id) + " at " + std::to_string(row.position + i));
        out.push_back({id, row.slot, row.position + i, i >= row.n_tokens - row.n_logits});
      }
    }
    return out;
  }

  /// Runs up to 64 tokens; their logits go to `logits_to`, or stay where the network leaves them.
  void run_pass(std::span<const Item> list, float* logits_to) {
    PassInputs inputs;
    std::memset(&inputs, 0, sizeof(inputs));
    std::fill(std::begin(inputs.slots), std::end(inputs.slots), -1);
    PassShape shape{static_cast<int32_t>(list.size()), 0, 1};
    for (size_t i = 0; i < list.size(); ++i) {
      inputs.tokens[i] = list[i].token;
      inputs.slots[i] = list[i].slot;
      inputs.positions[i] = list[i].position;
      shape.partitions = std::max(shape.partitions, list[i].position / kPartitionTokens + 1);
      if (list[i].logits) inputs.logit_tokens[shape.logit_rows++] = static_cast<int32_t>(i);
    }
    staging->copy(network->inputs(), &inputs, sizeof(inputs), stream);
    graphs->run(PassGraphs::bucket(shape, max_partitions), stream);
    if (logits_to != nullptr && shape.logit_rows > 0)
      check(cudaMemcpyAsync(
                logits_to, network->logits(),
                static_cast<size_t>(shape.logit_rows) * static_cast<size_t>(plan->vocab) * sizeof(float),
                cudaMemcpyDeviceToDevice, stream),
            "copy logits");
  }

  /// Runs prompt tokens on the kernels for many of them.
  void run_prompt(std::span<const Item> list, float* logits_to) {
    PromptShape shape{static_cast<int32_t>(list.size()), 0, 0};
    std::vector<int32_t> wanted;
    std::vector<QueryTile> tiles;
    std::vector<int32_t> inputs(list.size() * 3);
    for (size_t i = 0; i < list.size(); ++i) {
      inputs[i] = list[i].token;
      inputs[list.size() + i] = list[i].slot;
      inputs[2 * list.size() + i] = list[i].position;
      if (list[i].logits) wanted.push_back(static_cast<int32_t>(i));
      const bool follows =
          i > 0 && list[i].slot == list[i - 1].slot && list[i].position == list[i - 1].position + 1;
      if (!follows || tiles.back().n == kQueryTokens) tiles.push_back({static_cast<int32_t>(i), 0});
      ++tiles.back().n;
    }
    shape.logit_rows = static_cast<int32_t>(wanted.size());
    shape.tiles = static_cast<int32_t>(tiles.size());
    inputs.insert(inputs.end(), wanted.begin(), wanted.end());
    for (const QueryTile& tile : tiles) inputs.insert(inputs.end(), {tile.first, tile.n});
    staging->copy(network->prompt_inputs(), inputs.data(), inputs.size() * sizeof(int32_t), stream);
    network->run_prompt(shape, logits_to, stream);
  }

  struct Pass {
    bool prompt = false;  // of run_prompt
    std::vector<Item> items;
    size_t logits = 0;
  };

  std::vector<Pass> passes_of(const Batch& batch) const {
    std::vector<Pass> passes;
    for (const Role role : {Role::kGenerated, Role::kPrompt}) {
      const bool prompt = role == Role::kPrompt && network->prompt_tokens() > 0;
      const auto most = static_cast<size_t>(prompt ? network->prompt_tokens() : kPassRows);
      const std::vector<Item> all = items(batch, role);
      for (size_t first = 0; first < all.size(); first += most) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
        Pass pass{prompt, {begin, begin + static_cast<std::ptrdiff_t>(std::min(all.size() - first, most))}};
        pass.logits = static_cast<size_t>(
            std::count_if(pass.items.begin(), pass.items.end(), [](const Item& i) { return i.logits; }));
        passes.push_back(std::move(pass));
      }
    }
    return passes;
  }

  void run_passes(const Batch& batch, size_t n_logits) {
    const std::vector<Pass> passes = passes_of(batch);
    const bool gathered =
        std::count_if(passes.begin(), passes.end(), [](const Pass& p) { return p.logits > 0; }) > 1 ||
        n_logits > size_t{kPassRows};
    const auto vocab = static_cast<size_t>(plan->vocab);
    if (gathered && step_logits.bytes() < n_logits * vocab * sizeof(float)) {
      check(cudaStreamSynchronize(stream), "synchronize");
      step_logits = Memory::device(n_logits * vocab * sizeof(float));
    }
    logits = gathered ? step_logits.as<float>() : network->logits();
    size_t row = 0;
    for (const Pass& pass : passes) {
      float* to = gathered ? step_logits.as<float>() + row * vocab : nullptr;
      if (pass.prompt)
        run_prompt(pass.items, to != nullptr ? to : network->logits());
      else
        run_pass(pass.items, to);
      row += pass.logits;
    }
  }

  void draw_on_device(Step& step) {
    std::vector<DrawRow> rows;
    for (const SampleRow& s : step.draws) {
      const LogitRow& from = step.rows[static_cast<size_t>(s.logit_row)];
      rows.push_back(draw_row(s.params, s.logit_row, from.slot, from.next_position));
    }
    const bool cuts = std::any_of(rows.begin(), rows.end(), [](const DrawRow& row) { return row.cuts(); });
    const bool edits = std::any_of(rows.begin(), rows.end(), [](const DrawRow& row) { return row.edits(); });
    const auto n = static_cast<int32_t>(rows.size());
    staging->copy(draw_rows.as(), rows.data(), rows.size() * sizeof(DrawRow), stream);
    draw({draw_rows.as<DrawRow>(), logits, draw_blocks.as<DrawBlock>(), draw_results.as<DrawResult>(),
          network->last_tokens(), counts.as<uint32_t>(), edits, cuts ? draw_cuts.as<DrawCut>() : nullptr,
          plan->vocab, Vocab(plan->vocab, limits).drawable},
         n, stream);
    check(cudaMemcpyAsync(step.results.as(), draw_results.as(), rows.size() * sizeof(DrawResult),
                          cudaMemcpyDeviceToHost, stream),
          "copy draws");
  }

  void draw_on_host(Step& step, const SampleBatch& batch) {
    const size_t floats = step.rows.size() * static_cast<size_t>(plan->vocab);
    std::vector<float> host(floats);
    check(cudaMemcpyAsync(host.data(), logits, floats * sizeof(float), cudaMemcpyDeviceToHost, stream),
          "copy logits");
    check(cudaStreamSynchronize(stream), "step");
    for (auto& [ticket, other] : steps)
      if (&other != &step) collect(other);
    step.host.draw(batch, step.rows, host, {plan->vocab, limits}, tokens);
    step.view = step.host.view();
    std::vector<int32_t> list;
    for (const SampleRow& s : step.draws) list.push_back(step.rows[static_cast<size_t>(s.logit_row)].slot);
    list.insert(list.end(), step.view.tokens.begin(), step.view.tokens.end());
    const size_t bytes = list.size() * sizeof(int32_t);
    if (token_lists.bytes() < bytes) token_lists = Memory::device(bytes * 2);
    staging->copy(token_lists.as(), list.data(), bytes, stream);
    const auto n = static_cast<int32_t>(step.draws.size());
    set_last_tokens({token_lists.as<int32_t>(), token_lists.as<int32_t>() + n, n, network->last_tokens(),
                     counts.as<uint32_t>(), plan->vocab},
                    stream);
  }

  /// Takes what a finished step drew on the device; once, in the order of the steps.
  void collect(Step& step) {
    if (step.collected || !step.sampled || step.on_host) return;
    step.collected = true;
    const auto* results = step.results.as<DrawResult>();
    for (size_t i = 0; i < step.draws.size(); ++i) {
      const LogitRow& from = step.rows[static_cast<size_t>(step.draws[i].logit_row)];
      const int32_t token = results[i].token;
      if (token >= 0) tokens[static_cast<size_t>(from.slot)].drawn(token);
      step.tokens.push_back(token);
      step.logprobs.push_back(token >= 0 ? results[i].logprob : 0);
      step.errors.push_back(token >= 0 ? RowError::kNone : RowError::kNotFinite);
    }
    step.top.resize(step.draws.size());
    step.view = {step.tokens, step.logprobs, step.top, {}, step.errors};
  }
};

CudaExecutor::CudaExecutor() {
  if (device_count() == 0)
    throw Error(Code::kUnsupported, "[exec.cuda] expected a CUDA device and its driver; found none");
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "read the device");
  if (device.major < 9)
    throw Error(
        Code::kUnsupported,
        std::string("[exec.cuda] expected a device of compute capability 9.0 or more; got ") + device.name);
  caps_.name = "cuda";
  caps_.detail = std::string(device.name) + ", " + std::to_string(device.totalGlobalMem >> 30) + " GB";
  caps_.block_tokens = kBlockTokens;
  caps_.steps_in_flight = kStepsInFlight;
  caps_.bit_stable = true;
}

CudaExecutor::~CudaExecutor() = default;

int32_t CudaExecutor::devices() {
  return device_count();
}

MemoryPlan CudaExecutor::measure(const models::Plan& plan, const ops::WeightTable& weights,
                                 const Limits& limits) {
  require_plain_cache(limits, "cuda");
  MemoryPlan memory = Network::measure(plan, weights, limits);
  size_t total = 0;
  check(cudaMemGetInfo(&memory.device_free_bytes, &total), "measure");
  return memory;
}

void CudaExecutor::load(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) {
  require_plain_cache(limits, "cuda");
  if (limits.n_blocks.size() != plan.kv_groups.size() || limits.max_batch_tokens < 1 || limits.max_slots < 1)
    throw Error(Code::kInternal,
                "[exec.cuda.load] expected slots, batch tokens and a block count for each of " +
                    std::to_string(plan.kv_groups.size()) + " KV groups; got " +
                    std::to_string(limits.n_blocks.size()));
  state_ = std::make_unique<State>();
  State& s = *state_;
  s.plan = &plan;
  s.limits = limits;
  check(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking), "create a stream");
  s.network = std::make_unique<Network>(plan, weights, limits);
  s.graphs = std::make_unique<PassGraphs>(*s.network);
  s.staging = std::make_unique<StagingRing>(
      16, std::max<size_t>(16384, static_cast<size_t>(s.network->prompt_tokens()) * 4 * sizeof(int32_t)));
  s.tokens.assign(static_cast<size_t>(limits.max_slots), {});
  s.max_partitions = std::max(limits.max_context, 1) / kPartitionTokens + 1;
  const auto rows = static_cast<size_t>(std::max(limits.max_slots, kPassRows));
  s.draw_rows = Memory::device(rows * sizeof(DrawRow));
  s.draw_blocks = Memory::device(rows * static_cast<size_t>(draw_blocks(plan.vocab)) * sizeof(DrawBlock));
  const size_t counted =
      static_cast<size_t>(limits.max_slots) * static_cast<size_t>(plan.vocab) * sizeof(uint32_t);
  s.counts = Memory::device(counted);
  check(cudaMemset(s.counts.as(), 0, counted), "clear");
  s.draw_cuts = Memory::device(rows * sizeof(DrawCut));
  s.draw_results = Memory::device(rows * sizeof(DrawResult));
  check(cudaDeviceSynchronize(), "load");
}

void CudaExecutor::reset_slot(int32_t slot, std::span<const int32_t> prompt,
                              std::span<const int32_t> generated) {
  State& s = *state_;
  s.tokens[static_cast<size_t>(slot)].reset(prompt, generated);
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  tokens.insert(tokens.end(), generated.begin(), generated.end());
  const size_t bytes = tokens.size() * sizeof(int32_t);
  if (s.prompts.bytes() < bytes) {
    check(cudaStreamSynchronize(s.stream), "synchronize");
    s.prompts = Memory::device(bytes * 2);
  }
  if (!tokens.empty()) s.staging->copy(s.prompts.as(), tokens.data(), bytes, s.stream);
  if (!generated.empty())
    check(cudaMemcpyAsync(s.network->last_tokens() + slot, s.prompts.as<int32_t>() + tokens.size() - 1,
                          sizeof(int32_t), cudaMemcpyDeviceToDevice, s.stream),
          "copy the last token");
  const auto vocab = static_cast<size_t>(s.plan->vocab);
  reset_counts(
      {s.counts.as<uint32_t>() + static_cast<size_t>(slot) * vocab, s.plan->vocab},
      {s.prompts.as<int32_t>(), static_cast<int32_t>(prompt.size()), static_cast<int32_t>(generated.size())},
      s.stream);
}

Ticket CudaExecutor::forward(const Batch& batch) {
  State& s = *state_;
  if (!batch.copies.empty())
    throw Error(Code::kInternal, "[exec.cuda.forward] expected no copies of blocks, as caps say; got one");
  Step step;
  step.rows = logit_rows(batch);
  s.send_edits(batch.table_edits);
  s.run_passes(batch, step.rows.size());
  if (s.spare_events.empty()) {
    s.spare_events.emplace_back();
    check(cudaEventCreateWithFlags(&s.spare_events.back(), cudaEventDisableTiming), "create an event");
  }
  step.done = s.spare_events.back();
  s.spare_events.pop_back();
  check(cudaEventRecord(step.done, s.stream), "record");
  s.steps.emplace(s.next_ticket, std::move(step));
  return s.next_ticket++;
}

void CudaExecutor::sample(Ticket ticket, const SampleBatch& batch) {
  State& s = *state_;
  Step& step = s.step_of(ticket);
  if (ticket + 1 != s.next_ticket || step.sampled)
    throw Error(Code::kInternal, "[exec.cuda.sample] expected the last step, once; its logits are gone");
  step.draws.assign(batch.rows.begin(), batch.rows.end());
  step.on_host = step.draws.size() > s.draw_rows.bytes() / sizeof(DrawRow) ||
                 std::any_of(step.draws.begin(), step.draws.end(),
                             [&](const SampleRow& row) { return needs_host(row, s.plan->vocab); });
  step.sampled = true;
  if (step.on_host) {
    s.draw_on_host(step, batch);
  } else {
    for (const SampleRow& row : step.draws) ops::check(row.params);
    if (s.spare_results.empty()) s.spare_results.push_back(Memory::pinned(s.draw_results.bytes()));
    step.results = std::move(s.spare_results.back());
    s.spare_results.pop_back();
    s.draw_on_device(step);
  }
  check(cudaEventRecord(step.done, s.stream), "record");
}

const StepOutput& CudaExecutor::wait(Ticket ticket) {
  State& s = *state_;
  Step& step = s.step_of(ticket);
  check(cudaEventSynchronize(step.done), "step");
  s.collect(step);
  return step.view;
}

void CudaExecutor::release(Ticket ticket) {
  State& s = *state_;
  Step& step = s.step_of(ticket);
  s.spare_events.push_back(step.done);
  if (step.results.bytes() > 0) s.spare_results.push_back(std::move(step.results));
  s.steps.erase(ticket);
}

}  // namespace penstock::exec::cuda
