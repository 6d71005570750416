// One random change of an input after the other. Deterministic for a seed. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::fuzz {

class Mutator {
 public:
  Mutator(uint64_t seed, std::vector<std::string> words, size_t most_bytes)
      : state_(seed), words_(std::move(words)), most_bytes_(most_bytes) {}

  /// `other` gives what is spliced in.
  std::string mutate(std::string bytes, const std::string& other);

  uint64_t below(uint64_t bound);

 private:
  void change(std::string& bytes, const std::string& other);
  void change_number(std::string& bytes, size_t at);

  uint64_t state_;
  const std::vector<std::string> words_;
  const size_t most_bytes_;
};

}  // namespace penstock::fuzz
