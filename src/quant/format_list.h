// The one place that knows every format; a new format adds one line here and one in formats.cpp. Internal to
// quant.
#pragma once

#include "quant/format.h"

namespace penstock::quant {

const Format& dense_f32();
const Format& dense_f16();
const Format& dense_bf16();
const Format& affine();
const Format& mxfp4();
const Format& mxfp8();
const Format& nvfp4();
std::span<const Format* const> gguf_formats();

/// By the name of the tensor type ("Q4_K"); null when it is not read here.
const Format* find_gguf_format(std::string_view type);

}  // namespace penstock::quant
