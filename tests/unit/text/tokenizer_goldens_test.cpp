// Small tokenizers of every kind against what Python's tokenizers gives (tools/make_tokenizer_goldens.py):
// TK-15, TK-22.
#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

#include "golden_files.h"
#include "text/tokenizer.h"

namespace penstock::text {
namespace {

using base::Json;

void replace_all(std::string& text, std::string_view from, char to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
    text.replace(at, from.size(), 1, to);
}

std::vector<std::string> corpus() {
  std::istringstream file(testing::read_file(testing::data_dir() / "tokenizers/corpus.txt"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    replace_all(line, "\xE2\x90\x8A", '\n');
    replace_all(line, "\xE2\x90\x8D", '\r');
    lines.push_back(line);
  }
  return lines;
}

std::string spelled(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return text;
}

class TokenizerGoldens : public ::testing::TestWithParam<std::string> {};

TEST_P(TokenizerGoldens, EqualPython) {
  const std::filesystem::path folder = testing::data_dir() / "tokenizers";
  const Json golden = testing::read_json(folder / "goldens.json");
  const Json& want = golden["tokenizers"][GetParam()];
  const size_t block = golden["block"].get<size_t>();
  const Tokenizer tokenizer = Tokenizer::from_json(testing::read_file(folder / (GetParam() + ".json")), "");
  const std::vector<std::string> lines = corpus();
  ASSERT_EQ(lines.size(), 1000U);
  for (size_t start = 0; start < lines.size(); start += block) {
    std::string ids;
    std::string plain;
    std::string decoded;
    for (size_t i = start; i < start + block; ++i) {
      const std::string mark = i == start ? "" : "\n";
      const std::vector<int32_t> encoded = tokenizer.encode(lines[i], true);
      ids += mark + spelled(encoded);
      plain += mark + spelled(tokenizer.encode(lines[i], false, false));
      decoded += mark + tokenizer.decode(encoded, true);
    }
    const size_t at = start / block;
    EXPECT_EQ(testing::golden_hash(ids), want["ids"][at]) << "lines from " << start;
    EXPECT_EQ(testing::golden_hash(plain), want["plain"][at]) << "lines from " << start;
    EXPECT_EQ(testing::golden_hash(decoded), want["decoded"][at]) << "lines from " << start;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGoldens,
                         ::testing::Values("gpt2", "llama3", "digits", "sentencepiece", "metaspace_first",
                                           "unigram", "wordpiece"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace penstock::text
