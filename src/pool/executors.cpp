#include "pool/executors.h"

#include <utility>

#include "base/error.h"
#include "exec/cpu/cpu_executor.h"
#include "exec/reference_executor.h"
#ifdef PENSTOCK_WITH_CUDA
#include "exec/cuda/cuda_executor.h"
#endif
#ifdef PENSTOCK_WITH_MLX
#include "exec/mlx/mlx_executor.h"
#endif

namespace penstock::pool {

std::vector<std::string> executor_names() {
  return {"cpu",
#ifdef PENSTOCK_WITH_CUDA
          "cuda",
#endif
#ifdef PENSTOCK_WITH_MLX
          "mlx",
#endif
          "reference"};
}

namespace {

exec::cpu::Isa instructions_of(std::string_view setting) {
  using exec::cpu::Isa;
  constexpr std::pair<std::string_view, Isa> kNames[] = {
      {"auto", Isa::kBest},    {"avx512", Isa::kAvx512},      {"avx2", Isa::kAvx2},
      {"neon", Isa::kNeon},    {"neon_i8mm", Isa::kNeonI8mm}, {"neon_dotprod", Isa::kNeonDotprod},
      {"scalar", Isa::kScalar}};
  for (const auto& [name, isa] : kNames)
    if (name == setting) return isa;
  throw base::Error(
      base::Code::kInvalidRequest,
      "[pool.executor] expected a name of instructions as in the settings; got " + std::string(setting));
}

/// Instructions that were asked for and are not here are the caller's error, not a reason to try another
/// executor.
std::unique_ptr<exec::Executor> make_cpu(std::string_view instructions) {
  try {
    return std::make_unique<exec::cpu::CpuExecutor>(instructions_of(instructions));
  } catch (const base::Error& error) {
    throw base::Error(base::Code::kInvalidRequest, std::string(error.text()));
  }
}

}  // namespace

std::unique_ptr<exec::Executor> make_executor(std::string_view name, std::string_view cpu_instructions) {
  if (name == "cpu") return make_cpu(cpu_instructions);
#ifdef PENSTOCK_WITH_CUDA
  if (name == "cuda") return std::make_unique<exec::cuda::CudaExecutor>();
#endif
#ifdef PENSTOCK_WITH_MLX
  if (name == "mlx") return std::make_unique<exec::mlx::MlxExecutor>();
#endif
  if (name == "reference") return std::make_unique<exec::ReferenceExecutor>();
  std::string known;
  for (const auto& each : executor_names()) known += (known.empty() ? "" : ", ") + each;
  throw base::Error(base::Code::kUnsupported, "[pool.executor] expected an executor of this build (" + known +
                                                  "); got " + std::string(name));
}

int32_t usable_cores() {
  return exec::cpu::usable_cores();
}

std::vector<std::string> executor_order(std::string_view choice) {
  if (choice != "auto") return {std::string(choice)};
  std::vector<std::string> order = {"cpu"};
#if defined(PENSTOCK_WITH_MLX) && defined(__APPLE__)
  order.insert(order.begin(), "mlx");
#elif defined(PENSTOCK_WITH_MLX)
  order.push_back("mlx");
#endif
#ifdef PENSTOCK_WITH_CUDA
  if (exec::cuda::CudaExecutor::devices() > 0) order.insert(order.begin(), "cuda");
#endif
  return order;
}

}  // namespace penstock::pool
