// GGUF files speak another dialect: metadata instead of config.json, other tensor names, llama's q and k rows
// interleaved for rope, gemma's norms stored plus one. This translates.
#pragma once

#include <string>

#include "base/json.h"
#include "models/spec.h"
#include "tensor/gguf.h"

namespace penstock::models {

/// The config.json that this GGUF file's metadata amounts to. Throws Error(kUnsupported) for an architecture
/// or a rope setting that is not known here.
base::Json gguf_config(const tensor::Gguf& gguf);

/// "model.layers.3.self_attn.q_proj.weight" is "blk.3.attn_q.weight". `sandwich`: layers are normed after
/// attention too.
std::string gguf_tensor_name(const std::string& name, bool sandwich);

/// True for files whose q and k rows are interleaved for rope (architecture llama).
bool gguf_interleaves_rope(const tensor::Gguf& gguf);

}  // namespace penstock::models
