#!/usr/bin/env bash
# Builds the CPU kernels and their tests for arm64 in the folder $1 and runs them on emulated processors: with the
# matrix product of bytes, with the dot product alone, and with neither. Exit status 77: skipped, a tool is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v $tool >/dev/null && continue
  echo "skipped: $tool is missing; apt-get install g++-aarch64-linux-gnu qemu-user"
  exit 77
done
cmake --preset arm64 -B "$1"
cmake --build "$1" -j 2
ctest --test-dir "$1" -j 2 --output-on-failure --no-tests=error
