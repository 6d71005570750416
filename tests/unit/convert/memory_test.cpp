// Memory follows the largest tensor, not the model.
#include <fstream>

#include <sys/wait.h>
#include <unistd.h>

#include "convert/convert.h"
#include "unit/convert/tiny_model.h"
#include "unit/tensor/temporary_directory.h"

namespace penstock::convert {
namespace {

/// VmHWM, the most memory this process ever had in use; 0 where the system does not say.
long peak_kilobytes() {
  std::ifstream in("/proc/self/status");
  std::string word;
  while (in >> word) {
    long value = 0;
    if (word == "VmHWM:" && in >> value) return value;
  }
  return 0;
}

TEST(Memory, FollowsTheLargestTensor) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps freed memory";
#endif
  if (peak_kilobytes() == 0) GTEST_SKIP() << "no VmHWM here";
  const tensor::TemporaryDirectory folder;
  {
    // 16 matrices of 8 MB.
    const Shape shape = {.hidden = 256, .width = 16384, .layers = 5, .vocab = 16384};
    write_model(folder / "dense", tiny_config(shape), tiny_tensors(shape, tensor::DType::kF16));
  }
  const pid_t child = ::fork();  // a process with its own peak
  if (child == 0) {
    const long before = peak_kilobytes();
    Options options;
    options.threads = 2;
    options.wish.format = quant::Params{"affine", 64, 4};
    convert(models::open_model(folder / "dense"), folder / "made", options);
    const long grown = (peak_kilobytes() - before) / 1024;
    std::fprintf(stderr, "grew by %ld MB\n", grown);
    ::_exit(grown < 40 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(models::open_model(folder / "made").config["quantization"]["bits"], 4);
}

}  // namespace
}  // namespace penstock::convert
