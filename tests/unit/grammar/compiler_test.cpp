#include "grammar/compiler.h"

#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "grammar/matcher.h"
#include "unit/grammar/small_codec.h"

namespace penstock::grammar {
namespace {

using testing::SmallCodec;

const std::vector<int32_t> kStops = {SmallCodec::kEnd};

std::shared_ptr<Compiler> compiler() {
  return std::make_shared<Compiler>(std::make_shared<SmallCodec>(), kStops);
}

std::string error_of(Compiler& compiler, const Source& source) {
  try {
    compiler.compile(source);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kInvalidRequest);
    return error.what();
  }
  return "compiled";
}

TEST(Compiler, SO_18_NamesTheKeywordThatItCannotFollow) {
  const auto c = compiler();
  EXPECT_NE(error_of(*c, {Kind::kJsonSchema, R"({"type":"array","uniqueItems":true})"}).find("uniqueItems"),
            std::string::npos);
  EXPECT_NE(error_of(*c, {Kind::kRegex, "("}).find("[grammar.compile] expected a regular expression"),
            std::string::npos);
}

TEST(Compiler, KeepsWhatWasAskedForLately) {
  const auto c = compiler();
  const Source first{Kind::kRegex, "first"};
  const auto kept = c->compile(first);
  for (size_t i = 0; i + 1 < Compiler::kKept; ++i) {
    c->compile({Kind::kRegex, std::to_string(i)});
    EXPECT_EQ(c->compile(first), kept);
  }
  for (size_t i = 0; i < Compiler::kKept; ++i) c->compile({Kind::kRegex, "b" + std::to_string(i)});
  EXPECT_NE(c->compile(first), kept);
}

TEST(Compiler, ManyThreadsCompileAndFollow) {
  const auto c = compiler();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        const auto grammar = c->compile({Kind::kRegex, "[a-c]{3}" + std::to_string((i + t) % 5)});
        Matcher matcher(*grammar);
        std::vector<uint32_t> words(9);
        matcher.mask(words);
        const std::vector<int32_t> text = {'a', 'b', 'c', '0' + (i + t) % 5};
        EXPECT_EQ(matcher.allowed(text), 4u);
        matcher.consume(text);
        EXPECT_EQ(matcher.state(), Matcher::State::kComplete);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Matcher, CopiesGoTheirOwnWay) {
  const auto c = compiler();
  Matcher matcher(*c->compile({Kind::kChoice, R"(["ab","ac"])"}));
  matcher.consume(std::vector<int32_t>{'a'});
  Matcher copy(matcher);
  copy.consume(std::vector<int32_t>{'b'});
  EXPECT_EQ(copy.state(), Matcher::State::kComplete);
  EXPECT_EQ(matcher.state(), Matcher::State::kOpen);
  EXPECT_EQ(matcher.allowed(std::vector<int32_t>{'c'}), 1u);
  EXPECT_THROW(matcher.consume(std::vector<int32_t>{'d'}), base::Error);
}

TEST(JsonPart, HasBoundedWhitespace) {
  const std::string part = json_part(R"({"type": "object", "title": "T"})");
  EXPECT_NE(part.find("whitespace_pattern"), std::string::npos);
  EXPECT_THROW(json_part("[]"), base::Error);
  const auto c = compiler();
  Matcher matcher(*c->compile({Kind::kLark, "start: \"call \" body\nbody: %json " + part}));
  const std::vector<int32_t> text = {'c', 'a', 'l', 'l', ' ', '{', '}'};
  EXPECT_EQ(matcher.allowed(text), text.size());
}

}  // namespace
}  // namespace penstock::grammar
