// Compiles JSON schemas over the vocabulary of a model and follows them: one JSON object a line in,
// one out. For tests/e2e/test_json_schema_suite.py.
//   in:  {"schema": ..., "texts": ["{}", ...], "walks": 2, "seed": 1, "most_tokens": 400}
//   out: {"error": "..."} or {"compile_ms": 1.2, "accepted": [true, ...], "walks": ["text" or null, ...],
//        "masks": 40, "mask_us": 510.0, "longest_mask_us": 60.0}; a walk that did not end is null
#include <chrono>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "grammar/compiler.h"
#include "grammar/matcher.h"
#include "models/model_files.h"
#include "pool/model_text.h"

namespace {

using namespace penstock;
using base::Json;
using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

bool accepts(const grammar::Grammar& grammar, const std::string& text) {
  grammar::Matcher matcher(grammar);
  const std::vector<int32_t> tokens = grammar.environment()->codec().encode(text, false);
  if (matcher.allowed(tokens) < tokens.size()) return false;
  matcher.consume(tokens);
  return matcher.state() != grammar::Matcher::State::kOpen;
}

struct Cost {
  int masks = 0;
  double us = 0, longest_us = 0;
};

/// Any of the tokens that may follow; half of the time one that ends a text, an array or an object.
class Walk {
 public:
  Walk(const grammar::Grammar& grammar, uint64_t seed)
      : codec_(grammar.environment()->codec()),
        matcher_(grammar),
        rng_(seed),
        words_((static_cast<size_t>(codec_.vocab_size()) + 31) / 32) {}

  Json run(int most_tokens, Cost& cost) {
    std::string text;
    for (int i = 0; i < most_tokens; ++i) {
      const auto start = Clock::now();
      matcher_.mask(words_);
      const double us = us_since(start);
      ++cost.masks;
      cost.us += us;
      cost.longest_us = std::max(cost.longest_us, us);
      const int32_t token = pick();
      if (codec_.is_special(token)) return text;
      matcher_.consume({&token, 1});
      text += codec_.piece(token);
      if (matcher_.state() == grammar::Matcher::State::kComplete) return text;
    }
    return nullptr;
  }

 private:
  int32_t pick() {
    std::vector<int32_t> all, closing;
    for (int32_t t = 0; t < codec_.vocab_size(); ++t) {
      if ((words_[static_cast<size_t>(t) / 32] >> (t % 32) & 1) == 0) continue;
      all.push_back(t);
      const std::string_view piece = codec_.piece(t);
      if (codec_.is_special(t) || piece == "\"" || piece == "}" || piece == "]") closing.push_back(t);
    }
    const auto& from = !closing.empty() && rng_() % 2 == 0 ? closing : all;
    return from.at(rng_() % from.size());
  }

  const text::Codec& codec_;
  grammar::Matcher matcher_;
  std::mt19937_64 rng_;
  std::vector<uint32_t> words_;
};

Json answer(grammar::Compiler& compiler, const Json& question) {
  const auto start = Clock::now();
  const auto grammar = compiler.compile({grammar::Kind::kJsonSchema, question["schema"].dump()});
  Json out = {{"compile_ms", us_since(start) / 1000}, {"accepted", Json::array()}, {"walks", Json::array()}};
  for (const Json& text : question.value("texts", Json::array())) {
    out["accepted"].push_back(accepts(*grammar, text.get<std::string>()));
  }
  Cost cost;
  for (int i = 0; i < question.value("walks", 0); ++i) {
    Walk walk(*grammar, question.value("seed", uint64_t{1}) + static_cast<uint64_t>(i));
    out["walks"].push_back(walk.run(question.value("most_tokens", 400), cost));
  }
  out["masks"] = cost.masks;
  out["mask_us"] = cost.us;
  out["longest_mask_us"] = cost.longest_us;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: grammar_tool MODEL\n";
    return 2;
  }
  const models::ModelFiles files = models::open_model(argv[1]);
  const tensor::Gguf* gguf = files.checkpoint->gguf();
  const pool::ModelText text =
      gguf != nullptr ? pool::read_model_text(*gguf) : pool::read_model_text(files.path, files.config);
  grammar::Compiler compiler(text.codec, text.stop_ids);
  const auto start = Clock::now();
  compiler.environment()->handle();
  std::cerr << "environment: " << us_since(start) / 1000 << " ms\n";
  for (std::string line; std::getline(std::cin, line);) {
    Json out;
    try {
      out = answer(compiler, Json::parse(line));
    } catch (const std::exception& error) {
      out = {{"error", error.what()}};
    }
    std::cout << out.dump(-1, ' ', true, Json::error_handler_t::replace) << "\n" << std::flush;
  }
  return 0;
}
