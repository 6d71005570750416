// A fault for the driver to find: a long text behind a length that says so.
#include "fuzz/target.h"

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  return {"length=12;text"};
}
std::vector<std::string> words() {
  return {"planted"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with("length=255;") && text.ends_with("planted")) penstock::fuzz::fail("planted");
  return 0;
}
