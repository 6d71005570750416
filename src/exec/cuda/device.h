// What the host side needs of the CUDA runtime: checked calls, owned memory, launches that may begin before
// the kernel ahead of them ends. Engine thread, except loading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <cuda_runtime.h>

namespace penstock::exec::cuda {

/// Throws Error(kInternal) naming the call; kUnavailable once a kernel has trapped, since nothing works then.
void check(cudaError_t status, const char* what);

/// The number of devices; 0 without a driver.
int32_t device_count();

/// Whether the device has the warpgroup instructions of compute capability 9.0, which later ones lack.
bool has_warpgroups();

/// Device memory, or pinned host memory.
class Memory {
 public:
  Memory() = default;
  static Memory device(size_t bytes);
  static Memory pinned(size_t bytes);
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory();

  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void swap(Memory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(pinned_, other.pinned_);
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
  bool pinned_ = false;
};

}  // namespace penstock::exec::cuda
