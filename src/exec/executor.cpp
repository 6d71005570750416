#include "exec/executor.h"

#include "base/error.h"

namespace penstock::exec {
namespace {

base::Error cannot_move(const Caps& caps) {
  return {base::Code::kUnsupported,
          "[exec.block] expected an executor that moves blocks of its cache; got " + caps.name};
}

}  // namespace

void require_block_bytes(size_t got, size_t expected) {
  if (got == expected) return;
  throw base::Error(base::Code::kInternal, "[exec.write_block] expected a block of " +
                                               std::to_string(expected) + " bytes; got " +
                                               std::to_string(got));
}

std::vector<std::byte> Executor::read_block(int32_t, int32_t) {
  throw cannot_move(caps());
}

void Executor::write_block(int32_t, int32_t, std::span<const std::byte>) {
  throw cannot_move(caps());
}

}  // namespace penstock::exec
