#include "exec/cuda/device.h"

#include "base/error.h"

namespace penstock::exec::cuda {
namespace {

bool lost = false;

bool is_fatal(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  if (is_fatal(status)) lost = true;
  if (lost)
    throw base::Error(base::Code::kUnavailable,
                      std::string("[exec.cuda.") + what + "] expected a device that works; got " +
                          cudaGetErrorName(status) + ": " + cudaGetErrorString(status) +
                          ". This process cannot use it any more: start the program again");
  static_cast<void>(cudaGetLastError());  // or the next launch reports it again
  throw base::Error(base::Code::kInternal, std::string("[exec.cuda.") + what + "] expected success; got " +
                                               cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}

int32_t device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

bool has_warpgroups() {
  static const bool has = [] {
    int major = 0, minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "read the device");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "read the device");
    return major == 9 && minor == 0;
  }();
  return has;
}

Memory Memory::device(size_t bytes) {
  Memory memory;
  const cudaError_t status = cudaMalloc(&memory.data_, bytes == 0 ? 16 : bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    throw base::Error(base::Code::kInvalidRequest,
                      "[exec.cuda.load] expected " + std::to_string(bytes >> 20) +
                          " MB of free device memory; got " + std::to_string(free >> 20) + " MB of " +
                          std::to_string(total >> 20) + " MB");
  }
  check(status, "allocate");
  memory.bytes_ = bytes;
  return memory;
}

Memory Memory::pinned(size_t bytes) {
  Memory memory;
  check(cudaMallocHost(&memory.data_, bytes == 0 ? 16 : bytes), "allocate pinned memory");
  memory.bytes_ = bytes;
  memory.pinned_ = true;
  return memory;
}

Memory::~Memory() {
  if (data_ == nullptr) return;
  if (pinned_)
    cudaFreeHost(data_);
  else
    cudaFree(data_);
}

}  // namespace penstock::exec::cuda
