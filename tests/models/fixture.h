// A fixture of tests/models: a tiny random model, its prompts and the logits that a reference gave, or its
// texts and what they become. See docs/dev/fixtures.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "models/model_files.h"
#include "tensor/checkpoint.h"

namespace penstock::models {

class Fixture {
 public:
  explicit Fixture(const std::filesystem::path& folder);

  const std::string& name() const { return name_; }
  const base::Json& expected() const { return expected_; }
  std::vector<std::vector<int32_t>> prompts() const;
  int32_t vocab() const { return expected_["vocab_size"].get<int32_t>(); }

  /// Row `row` of expected.bin. [vocab], of an encoder [width]
  std::span<const float> row(size_t row) const;

  /// The model with config.json patched (RFC 7386). The weights stay.
  ModelFiles open(const base::Json& patch = base::Json::object()) const;

  /// Every fixture folder, by name: those of models that generate, or of encoders.
  static std::vector<std::filesystem::path> folders();
  static std::vector<std::filesystem::path> encoder_folders();

 private:
  std::string name_;
  base::Json config_, expected_;
  std::vector<float> rows_;
  std::shared_ptr<const tensor::Checkpoint> checkpoint_;
};

}  // namespace penstock::models
