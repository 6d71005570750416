// A model's files opened: config read, plan lowered, every weight bound to where it lies in the checkpoint.
// Loader thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/json.h"
#include "models/plan.h"
#include "models/spec.h"
#include "tensor/checkpoint.h"

namespace penstock::models {

struct ModelFiles {
  std::filesystem::path path;
  base::Json config;  // config.json, or what a GGUF file's metadata amounts to
  ModelSpec spec;
  Plan plan;
  std::shared_ptr<const tensor::Checkpoint> checkpoint;  // keeps the weights' memory
  ops::WeightTable weights;                              // in the plan's order
  std::string format;  // "affine 4-bit group 32", what most of the bytes are
};

/// `path`: a model directory or a .gguf file. Strict: unknown, missing and misshapen tensors are errors
/// naming them.
ModelFiles open_model(const std::filesystem::path& path);

/// The same from a parsed config and an open checkpoint.
ModelFiles bind_model(base::Json config, std::shared_ptr<const tensor::Checkpoint> checkpoint);

}  // namespace penstock::models
