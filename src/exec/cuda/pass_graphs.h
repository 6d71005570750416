// Passes captured once and replayed: one graph for each bucket of tokens, logit rows and context. Engine
// thread.
#pragma once

#include <map>

#include "exec/cuda/device.h"
#include "exec/cuda/network.h"

namespace penstock::exec::cuda {

class PassGraphs {
 public:
  explicit PassGraphs(Network& network) : network_(network) {}
  ~PassGraphs();

  /// The bucket that a pass runs in: at least as many tokens, rows and partitions.
  static PassShape bucket(PassShape shape, int32_t max_partitions);

  /// Enqueues the pass; captures it first where it is new.
  void run(const PassShape& bucket, cudaStream_t stream);

 private:
  Network& network_;
  std::map<PassShape, cudaGraphExec_t> graphs_;
};

}  // namespace penstock::exec::cuda
