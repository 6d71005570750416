#include "exec/cuda/pass_graphs.h"

#include <algorithm>
#include <iterator>

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kRowBuckets[] = {0, 1, 2, 4, 8, 16, 24, 32, 48, 64};

int32_t round_rows(int32_t rows) {
  return *std::lower_bound(std::begin(kRowBuckets), std::end(kRowBuckets), rows);
}

}  // namespace

PassGraphs::~PassGraphs() {
  for (auto& [shape, graph] : graphs_) cudaGraphExecDestroy(graph);
}

PassShape PassGraphs::bucket(PassShape shape, int32_t max_partitions) {
  int32_t partitions = 2;
  while (partitions < shape.partitions) partitions += std::max(1, partitions / 4);
  return {round_rows(shape.tokens), round_rows(shape.logit_rows), std::min(partitions, max_partitions)};
}

void PassGraphs::run(const PassShape& bucket, cudaStream_t stream) {
  auto& graph = graphs_[bucket];
  if (graph == nullptr) {
    cudaGraph_t captured = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin a graph");
    try {
      network_.run(bucket, stream);
    } catch (...) {
      cudaStreamEndCapture(stream, &captured);
      if (captured != nullptr) cudaGraphDestroy(captured);
      throw;
    }
    check(cudaStreamEndCapture(stream, &captured), "end a graph");
    const cudaError_t status = cudaGraphInstantiate(&graph, captured, 0);
    cudaGraphDestroy(captured);
    check(status, "instantiate a graph");
  }
  check(cudaGraphLaunch(graph, stream), "launch a graph");
}

}  // namespace penstock::exec::cuda
