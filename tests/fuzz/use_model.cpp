#include "fuzz/use_model.h"

#include <algorithm>
#include <vector>

#include "fuzz/target.h"
#include "quant/format.h"

namespace penstock::fuzz {
namespace {

constexpr int64_t kMostRows = 16;

void use_row(const quant::Matrix& matrix, int64_t row) {
  const auto cols = static_cast<size_t>(matrix.cols);
  std::vector<float> values(cols);
  matrix.format->dequantize(matrix, row, values);
  if (!matrix.format->integer_codes(matrix)) return;
  const auto groups = cols / static_cast<size_t>(matrix.format->code_group(matrix));
  std::vector<uint8_t> codes(cols);
  std::vector<float> scales(groups), biases(groups);
  matrix.format->codes(matrix, row, {codes, scales, biases});
}

}  // namespace

void use_weights(const models::ModelFiles& files) {
  expect(files.weights.size() == files.plan.weights.size(), "a weight of the plan that is not bound");
  for (const quant::Matrix& matrix : files.weights) {
    const int64_t rows = std::min(matrix.rows, kMostRows);
    for (int64_t row = 0; row < rows; ++row) use_row(matrix, row);
    if (rows < matrix.rows) use_row(matrix, matrix.rows - 1);
  }
}

void use_text(const pool::ModelText& text) {
  for (const int32_t id : text.codec->encode("ab <s>a\xC3\xA4", true)) {
    expect(id >= 0 && id < text.codec->vocab_size(), "an id outside the vocabulary");
  }
  for (int32_t id = 0; id < std::min(text.codec->vocab_size(), 64); ++id) {
    text.codec->piece(id);
    text.codec->is_special(id);
  }
  if (!text.codec->has_template()) return;
  const base::Json message = {{"role", "user"}, {"content", "ab"}};
  text.codec->render({{"messages", base::Json::array({message})}, {"add_generation_prompt", true}});
}

}  // namespace penstock::fuzz
