// The executors that every fixture runs on in this build.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/cpu/cpu_executor.h"
#include "exec/reference_executor.h"
#ifdef PENSTOCK_WITH_MLX
#include "exec/mlx/mlx_executor.h"
#endif

namespace penstock::models {

struct TestExecutor {
  std::string name;
  std::function<std::unique_ptr<exec::Executor>()> make;
};

inline std::vector<TestExecutor> test_executors() {
  std::vector<TestExecutor> all = {{"reference", [] { return std::make_unique<exec::ReferenceExecutor>(); }}};
  all.push_back({"cpu", [] { return std::make_unique<exec::cpu::CpuExecutor>(); }});
#ifdef PENSTOCK_WITH_MLX
  all.push_back({"mlx", [] { return std::make_unique<exec::mlx::MlxExecutor>(); }});
#endif
  return all;
}

}  // namespace penstock::models
