// What a fuzz target gives the driver, and what the driver gives it. The entry point is libFuzzer's, so that
// a target can be linked with that too. Plain functions of the driver's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace penstock::fuzz {

/// Inputs to begin with, small, of every kind that the target knows.
std::vector<std::string> seeds();

/// Words of the format, to be put anywhere.
std::vector<std::string> words();

/// Ends the process: the input shows a fault that no sanitizer sees. Any thread.
[[noreturn]] void fail(const std::string& why);

inline void expect(bool holds, std::string_view what) {
  if (!holds) fail(std::string(what));
}

/// Does what may be refused for what the input says. A defect of the program, or an exception of another
/// kind, is no refusal.
template <class Work>
void refusable(Work work) {
  try {
    work();
  } catch (const base::Error& error) {
    if (error.code() == base::Code::kInternal) fail(error.what());
  }
}

/// A copy in an allocation of exactly that size, so that a read past its end is seen.
class Exact {
 public:
  Exact(const uint8_t* data, size_t size) : bytes_(data, data + size) {}
  explicit Exact(std::string_view text) : bytes_(text.begin(), text.end()) {}
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace penstock::fuzz
