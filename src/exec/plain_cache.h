// What an executor says that cannot quantise keys and values. Pure.
#pragma once

#include <string>

#include "base/error.h"
#include "exec/executor.h"

namespace penstock::exec {

/// Throws Error(kInvalidRequest) naming the executor and the format: a cache of another kind than was asked
/// for would be silent, and so would another executor.
inline void require_plain_cache(const Limits& limits, const char* executor) {
  if (limits.kv_format == ops::KvFormat::kPlain) return;
  throw base::Error(base::Code::kInvalidRequest,
                    std::string("[exec.") + executor + "] expected kv_format auto, the executor " + executor +
                        " does not quantise keys and values (cpu does); got " + ops::name(limits.kv_format));
}

}  // namespace penstock::exec
