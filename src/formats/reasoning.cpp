#include "formats/list.h"

namespace penstock::formats {

const std::vector<ReasoningFormat>& reasoning_formats() {
  static const std::vector<ReasoningFormat> kFormats = {
      {"think", {"</think>"}, "<think>", "</think>", {}},
  };
  return kFormats;
}

}  // namespace penstock::formats
