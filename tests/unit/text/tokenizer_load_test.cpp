#include <ctime>

#include <gtest/gtest.h>

#include "tiny_tokenizers.h"

namespace penstock::text {
namespace {

double cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// A vocabulary of `tokens` words, one in eight of them an added special token. Written as text: an ordered
// Json object looks through all its keys for each new one.
std::string file_of(int tokens) {
  base::Json file = testing::byte_level_json({});
  std::string vocab = file["model"]["vocab"].dump();
  vocab.pop_back();
  for (int id = 256; id < tokens; ++id) {
    const std::string number = std::to_string(id);
    const std::string word = id % 8 == 0 ? "<|special_" + number + "|>" : "word" + number;
    if (id % 8 == 0) file["added_tokens"].push_back(testing::added_token(id, word, true));
    vocab += ",\"" + word + "\":" + number;
  }
  file["model"]["vocab"] = "VOCAB";
  std::string text = file.dump();
  return text.replace(text.find("\"VOCAB\""), 7, vocab + "}");
}

double load_s(const std::string& file) {
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    const double start = cpu_s();
    const Tokenizer tokenizer = Tokenizer::from_json(file, "");
    best = std::min(best, cpu_s() - start);
    EXPECT_GT(tokenizer.vocab_size(), 256);
  }
  return best;
}

// TK-09: eight times the vocabulary, with eight times the special tokens, loads in about eight times the
// time; adding special tokens one by one made it 64 times.
TEST(TokenizerLoad, GrowsLinearlyWithTheVocabulary) {
  const double small_s = load_s(file_of(32768));
  const double large_s = load_s(file_of(262144));
  EXPECT_LT(large_s / small_s, 24);
}

}  // namespace
}  // namespace penstock::text
