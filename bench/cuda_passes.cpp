// Times the kernels of the CUDA executor without the engine, on a model of random weights:
// cuda_passes [--shape 8b|1.5b] [--linears [--copies N]] [--pass TOKENS:CONTEXT]... [--profile]. Few copies
// of a matrix stay in the cache. A pass is one token of each of TOKENS sequences at position CONTEXT with its
// logits, replayed as a graph; --profile runs each once without a graph, for a profiler that reads kernels.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/random_model.h"
#include "exec/cuda/kv_layout.h"
#include "exec/cuda/linear.h"
#include "exec/cuda/pass_graphs.h"
#include "exec/cuda/weights.h"

namespace {

using namespace penstock;

/// Each linear of a layer alone, over enough copies that nothing comes from the cache.
void measure_linears(const bench::RandomModel& model, size_t copies_wanted) {
  namespace cuda = exec::cuda;
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  cuda::prepare_linear();
  std::printf("%14s", "us (share of 4570 GB/s)");
  for (const int rows : {1, 8, 16, 32, 64}) std::printf("  %10d rows", rows);
  std::printf("\n");
  cuda::WeightLoader loader(false);
  const auto& plan = model.plan();
  std::vector<cuda::Stack> stacks;
  for (const auto& operation : plan.operations) {
    const auto at = [&](ops::WeightId w) { return &model.weights()[static_cast<size_t>(w)]; };
    if (stacks.size() >= 5) break;
    if (const auto* in = std::get_if<ops::AttnIn>(&operation))
      stacks.push_back({{at(in->q.weight), at(in->k.weight), at(in->v.weight)}});
    if (const auto* project = std::get_if<ops::Project>(&operation))
      stacks.push_back({{at(project->linear.weight)}});
    if (const auto* mlp = std::get_if<ops::Mlp>(&operation)) {
      stacks.push_back({{at(mlp->gate.weight), at(mlp->up.weight)}, true});
      stacks.push_back({{at(mlp->down.weight)}});
      stacks.push_back({{at(std::get<ops::Head>(plan.operations.back()).weight)}});
    }
  }
  for (const auto& stack : stacks) {
    std::vector<cuda::DeviceMatrix> copies;
    const cuda::TileShape shape = loader.load(stack).tiles.shape;
    const size_t enough = std::max<size_t>(2, (size_t{400} << 20) / shape.bytes() + 1);
    const size_t n = copies_wanted == 0 ? enough : copies_wanted;
    for (size_t i = 0; i < n; ++i) copies.push_back(loader.load(stack));
    auto x = cuda::Memory::device(size_t{32} << 20),
         out = cuda::Memory::device(cuda::partial_floats(shape) * 4);
    auto exponents = cuda::Memory::device(cuda::kExponents * sizeof(int32_t));
    cuda::check(cudaMemset(x.as(), 0x11, x.bytes()), "set");
    cuda::check(cudaMemset(exponents.as(), 0, exponents.bytes()), "set");
    std::printf("%6d x %-6d S%d", shape.rows, shape.cols, shape.slices);
    for (const int rows : {1, 8, 16, 32, 64}) {
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t exec = nullptr;
      cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
      for (const auto& copy : copies)
        cuda::multiply(copy.tiles, {x.as(), exponents.as<int32_t>()}, rows, out.as<float>(), stream);
      cuda::check(cudaStreamEndCapture(stream, &graph), "capture");
      cuda::check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
      cudaEvent_t start, stop;
      cudaEventCreate(&start);
      cudaEventCreate(&stop);
      for (int i = 0; i < 2; ++i) cuda::check(cudaGraphLaunch(exec, stream), "launch");
      cudaEventRecord(start, stream);
      for (int i = 0; i < 10; ++i) cuda::check(cudaGraphLaunch(exec, stream), "launch");
      cudaEventRecord(stop, stream);
      cuda::check(cudaStreamSynchronize(stream), "run");
      float ms = 0;
      cudaEventElapsedTime(&ms, start, stop);
      const double us = ms * 1e3 / 10 / static_cast<double>(n);
      std::printf("  %7.2f (%3.0f%%)", us, static_cast<double>(shape.bytes()) / us / 4570e3 * 100);
      cudaGraphExecDestroy(exec);
      cudaGraphDestroy(graph);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

struct Pass {
  int32_t tokens, context;
  int32_t blocks() const { return context / exec::cuda::kBlockTokens + 1; }  // of a sequence
};

/// One network for all passes.
class Passes {
 public:
  Passes(const bench::RandomModel& model, const std::vector<Pass>& all) {
    exec::Limits limits;
    limits.n_blocks = {0};
    for (const Pass& pass : all) {
      limits.max_slots = std::max(limits.max_slots, pass.tokens);
      limits.max_context = std::max(limits.max_context, pass.context + 64);
      limits.n_blocks[0] = std::max(limits.n_blocks[0], pass.tokens * pass.blocks());
    }
    network_ = std::make_unique<exec::cuda::Network>(model.plan(), model.weights(), limits);
    graphs_ = std::make_unique<exec::cuda::PassGraphs>(*network_);
    exec::cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  }

  void measure(const Pass& pass, bool profile) {
    namespace cuda = exec::cuda;
    set_inputs(pass);
    const int32_t partitions = pass.context / cuda::kPartitionTokens + 1;
    const cuda::PassShape shape =
        cuda::PassGraphs::bucket({pass.tokens, pass.tokens, partitions}, partitions);
    if (profile) {
      network_->run(shape, stream_);
      return cuda::check(cudaStreamSynchronize(stream_), "run");
    }
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    for (int i = 0; i < 3; ++i) graphs_->run(shape, stream_);
    std::vector<float> times;
    for (int r = 0; r < 5; ++r) {
      cudaEventRecord(start, stream_);
      for (int i = 0; i < 10; ++i) graphs_->run(shape, stream_);
      cudaEventRecord(stop, stream_);
      cuda::check(cudaStreamSynchronize(stream_), "run");
      float ms = 0;
      cudaEventElapsedTime(&ms, start, stop);
      times.push_back(ms / 10);
    }
    std::sort(times.begin(), times.end());
    std::printf("pass of %2d tokens at %6d: %.3f ms (%.3f to %.3f)\n", pass.tokens, pass.context, times[2],
                times[0], times[4]);
    std::fflush(stdout);
  }

 private:
  void set_inputs(const Pass& pass) {
    namespace cuda = exec::cuda;
    const cuda::BlockTables tables = network_->tables();
    std::vector<int32_t> blocks(static_cast<size_t>(pass.tokens * tables.per_group));
    cuda::PassInputs inputs{};
    std::fill(std::begin(inputs.slots), std::end(inputs.slots), -1);
    for (int32_t t = 0; t < pass.tokens; ++t) {
      for (int32_t b = 0; b < pass.blocks(); ++b)
        blocks[static_cast<size_t>(t * tables.per_group + b)] = b * pass.tokens + t;
      inputs.tokens[t] = 17 + t;
      inputs.slots[t] = t;
      inputs.positions[t] = pass.context;
      inputs.logit_tokens[t] = t;
    }
    cuda::check(cudaMemcpy(tables.blocks, blocks.data(), blocks.size() * 4, cudaMemcpyHostToDevice),
                "tables");
    cuda::check(cudaMemcpy(network_->inputs(), &inputs, sizeof(inputs), cudaMemcpyHostToDevice), "inputs");
  }

  std::unique_ptr<exec::cuda::Network> network_;
  std::unique_ptr<exec::cuda::PassGraphs> graphs_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) try {
  bench::ModelShape shape = bench::kEightB;
  bool linears = false, profile = false;
  size_t copies = 0;
  std::vector<Pass> passes;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const std::string next = i + 1 < argc ? argv[i + 1] : "";
    if (arg == "--shape" && next == "1.5b") shape = bench::kOneAndHalfB;
    if (arg == "--linears") linears = true;
    if (arg == "--copies") copies = static_cast<size_t>(std::atoi(next.c_str()));
    if (arg == "--profile") profile = true;
    if (arg == "--pass")
      passes.push_back({std::atoi(next.c_str()), std::atoi(next.c_str() + next.find(':') + 1)});
  }
  const bench::RandomModel model(shape);
  if (linears) measure_linears(model, copies);
  if (passes.empty()) return 0;
  Passes all(model, passes);
  for (const Pass& pass : passes) all.measure(pass, profile);
  return 0;
} catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}
