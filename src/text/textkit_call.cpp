#include "text/textkit_call.h"

#include "base/error.h"

namespace penstock::text {
namespace {

std::string last_error() {
  std::string text(textkit_last_error(nullptr, 0), '\0');
  textkit_last_error(reinterpret_cast<uint8_t*>(text.data()), text.size());
  return text;
}

base::Code code_of(int32_t status) {
  switch (status) {
    case TEXTKIT_INVALID:
      return base::Code::kCorrupt;
    case TEXTKIT_UNSUPPORTED:
      return base::Code::kUnsupported;
    case TEXTKIT_REFUSED:
      return base::Code::kInvalidRequest;
    default:
      return base::Code::kInternal;
  }
}

}  // namespace

void check(int32_t status, std::string_view operation) {
  if (status == TEXTKIT_OK) return;
  throw base::Error(code_of(status), "[" + std::string(operation) + "] " + last_error());
}

}  // namespace penstock::text
