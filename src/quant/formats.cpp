#include <vector>

#include "base/error.h"
#include "quant/format.h"
#include "quant/format_list.h"

namespace penstock::quant {

std::span<const Format* const> formats() {
  static const std::vector<const Format*> kAll = [] {
    std::vector<const Format*> all = {&dense_f32(), &dense_f16(), &dense_bf16(), &affine(),
                                      &mxfp4(),     &mxfp8(),     &nvfp4()};
    all.insert(all.end(), gguf_formats().begin(), gguf_formats().end());
    return all;
  }();
  return kAll;
}

const Format* find_format(std::string_view name) {
  for (const Format* format : formats()) {
    if (format->name() == name) return format;
  }
  return nullptr;
}

void Format::no_codes() const {
  throw base::Error(base::Code::kInternal,
                    "[quant.codes] expected a format with integer codes; got " + std::string(name()));
}

}  // namespace penstock::quant
