// The executors that every fixture runs on in this build.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/cpu/cpu_executor.h"
#include "exec/reference_executor.h"
#ifdef PENSTOCK_WITH_CUDA
#include "exec/cuda/cuda_executor.h"
#endif
#ifdef PENSTOCK_WITH_MLX
#include "exec/mlx/mlx_executor.h"
#endif

namespace penstock::models {

/// Why the executor of that name cannot run here; empty where it can.
inline std::string skip_reason([[maybe_unused]] const std::string& name) {
#ifdef PENSTOCK_WITH_CUDA
  if (name == "cuda" && exec::cuda::CudaExecutor::devices() == 0) return "skipped: no CUDA device";
#endif
  return {};
}

struct TestExecutor {
  std::string name;
  std::function<std::unique_ptr<exec::Executor>()> make;
};

inline std::vector<TestExecutor> test_executors() {
  std::vector<TestExecutor> all = {{"reference", [] { return std::make_unique<exec::ReferenceExecutor>(); }}};
  all.push_back({"cpu", [] { return std::make_unique<exec::cpu::CpuExecutor>(); }});
#ifdef PENSTOCK_WITH_CUDA
  all.push_back({"cuda", [] { return std::make_unique<exec::cuda::CudaExecutor>(); }});
#endif
#ifdef PENSTOCK_WITH_MLX
  all.push_back({"mlx", [] { return std::make_unique<exec::mlx::MlxExecutor>(); }});
#endif
  return all;
}

}  // namespace penstock::models
