// Sizes and makes the memory of a loaded plan. Loader thread.
#pragma once

#include <memory>

#include "exec/cpu/step.h"
#include "exec/executor.h"

namespace penstock::exec::cpu {

/// Everything but the weights: buffers, scratch, cache. `groups`: group sizes of quantised activations.
std::unique_ptr<Context> make_context(const models::Plan& plan, const Limits& limits, GroupSet groups,
                                      ThreadPool& pool, const Kernels& kernels);

/// Bytes of the buffers and scratch that make_context() takes, the cache left out.
size_t scratch_bytes(const models::Plan& plan, const Limits& limits, GroupSet groups, int32_t threads,
                     const Kernels& kernels);

}  // namespace penstock::exec::cpu
