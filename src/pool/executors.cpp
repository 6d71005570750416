#include "pool/executors.h"

#include "base/error.h"
#include "exec/cpu/cpu_executor.h"
#include "exec/reference_executor.h"
#ifdef PENSTOCK_WITH_MLX
#include "exec/mlx/mlx_executor.h"
#endif

namespace penstock::pool {

std::vector<std::string> executor_names() {
  return {"cpu",
#ifdef PENSTOCK_WITH_MLX
          "mlx",
#endif
          "reference"};
}

std::unique_ptr<exec::Executor> make_executor(std::string_view name) {
  if (name == "cpu") return std::make_unique<exec::cpu::CpuExecutor>();
#ifdef PENSTOCK_WITH_MLX
  if (name == "mlx") return std::make_unique<exec::mlx::MlxExecutor>();
#endif
  if (name == "reference") return std::make_unique<exec::ReferenceExecutor>();
  std::string known;
  for (const auto& each : executor_names()) known += (known.empty() ? "" : ", ") + each;
  throw base::Error(base::Code::kUnsupported, "[pool.executor] expected an executor of this build (" + known +
                                                  "); got " + std::string(name));
}

std::vector<std::string> executor_order(std::string_view choice) {
  if (choice != "auto") return {std::string(choice)};
#if defined(PENSTOCK_WITH_MLX) && defined(__APPLE__)
  return {"mlx", "cpu"};
#elif defined(PENSTOCK_WITH_MLX)
  return {"cpu", "mlx"};
#else
  return {"cpu"};
#endif
}

}  // namespace penstock::pool
