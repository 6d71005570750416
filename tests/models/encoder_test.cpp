// Every encoder's fixture: what its texts become alone and together, and each config field that matters, on
// the executors that encode; the others refuse. On the CPU a text has the same bytes in any company.
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/logits_runner.h"
#include "models/executors.h"
#include "models/fixture.h"

namespace penstock::models {
namespace {

using base::Json;

constexpr float kExact = 2e-5f;  // numbers of about 0.1 to 1
constexpr float kFast = 2e-2f;   // int8 activations and a cache of half precision

struct Text {
  std::vector<int32_t> ids, types;
};

std::vector<Text> texts_of(const Fixture& fixture) {
  std::vector<Text> texts;
  for (const Json& text : fixture.expected()["texts"])
    texts.push_back({text["ids"].get<std::vector<int32_t>>(), text["types"].get<std::vector<int32_t>>()});
  return texts;
}

/// An executor with the model of a fixture.
struct Loaded {
  Loaded(const ModelFiles& files, std::unique_ptr<exec::Executor> made, bool exact, int32_t threads = 2)
      : executor(std::move(made)), width(static_cast<size_t>(files.plan.pooled_width)) {
    exec::Limits limits{.max_slots = 8, .max_batch_tokens = 600, .max_context = 320};
    limits.threads = threads;
    limits.exact = exact;
    limits.n_blocks = exec::text_blocks(files.plan, limits, executor->caps().block_tokens);
    executor->measure(files.plan, files.weights, limits);
    executor->load(files.plan, files.weights, limits);
  }

  std::vector<std::vector<float>> encode(const std::vector<Text>& texts) {
    std::vector<int32_t> lengths, ids, types;
    for (const Text& text : texts) {
      lengths.push_back(static_cast<int32_t>(text.ids.size()));
      ids.insert(ids.end(), text.ids.begin(), text.ids.end());
      types.insert(types.end(), text.types.begin(), text.types.end());
    }
    const auto all = executor->encode({lengths, ids, types});
    EXPECT_EQ(all.size(), texts.size() * width);
    std::vector<std::vector<float>> out;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto one = all.subspan(i * width, width);
      out.emplace_back(one.begin(), one.end());
    }
    return out;
  }

  std::unique_ptr<exec::Executor> executor;
  size_t width;
};

float difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::isnan(a[i]) ? INFINITY : std::max(most, std::abs(a[i] - b[i]));
  return most;
}

bool encodes(const std::string& executor) {
  return executor == "reference" || executor == "cpu";
}

struct Case {
  std::filesystem::path folder;
  TestExecutor executor;
};

class EncoderTest : public testing::TestWithParam<Case> {
 protected:
  EncoderTest() : fixture_(GetParam().folder), texts_(texts_of(fixture_)) {}

  void SetUp() override {
    if (!encodes(GetParam().executor.name)) GTEST_SKIP() << "does not encode";
  }

  Loaded load(const ModelFiles& files, bool exact = true) const {
    return {files, GetParam().executor.make(), exact};
  }

  const Fixture fixture_;
  const std::vector<Text> texts_;
};

TEST_P(EncoderTest, TextsTogetherAndAlone) {
  const ModelFiles files = fixture_.open();
  Loaded loaded = load(files);
  const auto together = loaded.encode(texts_);
  for (size_t i = 0; i < texts_.size(); ++i) {
    EXPECT_LT(difference(together[i], fixture_.row(i)), kExact) << "text " << i;
    EXPECT_LT(difference(loaded.encode({texts_[i]})[0], fixture_.row(i)), kExact) << "text " << i << " alone";
  }
}

TEST_P(EncoderTest, FastArithmeticStaysNear) {
  const ModelFiles files = fixture_.open();
  const auto fast = load(files, false).encode(texts_);
  for (size_t i = 0; i < texts_.size(); ++i)
    EXPECT_LT(difference(fast[i], fixture_.row(i)), kFast) << "text " << i;
}

TEST_P(EncoderTest, EveryFieldThatMattersIsHonouredOrRefused) {
  for (const Json& variant : fixture_.expected()["variants"]) {
    SCOPED_TRACE(variant["field"].get<std::string>() + " " + variant["patch"].dump());
    std::unique_ptr<ModelFiles> files;
    try {
      files = std::make_unique<ModelFiles>(fixture_.open(variant["patch"]));
    } catch (const base::Error& error) {
      EXPECT_TRUE(variant["expect"] == "error" || variant.value("or_error", false)) << error.what();
      continue;
    }
    EXPECT_NE(variant["expect"], "error") << "the model loaded";
    if (variant["expect"] == "error") continue;
    const size_t row = variant["expect"] == "same" ? 0 : variant["row"].get<size_t>();
    EXPECT_LT(difference(load(*files).encode({texts_[0]})[0], fixture_.row(row)), kExact);
  }
}

TEST_P(EncoderTest, RefusesWhatItsLimitsDoNotAllow) {
  const ModelFiles files = fixture_.open();
  Loaded loaded = load(files);
  const auto refuses = [&](const std::vector<Text>& texts) {
    EXPECT_THROW(loaded.encode(texts), base::Error);
  };
  refuses({Text{{}, {}}});
  refuses({Text{{fixture_.open().plan.vocab}, {0}}});
  refuses({Text{{1}, {7}}});
  refuses({Text{std::vector<int32_t>(321, 1), std::vector<int32_t>(321, 0)}});
  refuses(std::vector<Text>(9, Text{{1}, {0}}));
  EXPECT_LT(difference(loaded.encode({texts_[1]})[0], fixture_.row(1)), kExact) << "after refusals";
  const std::vector<exec::Row> rows = {{0, exec::Role::kPrompt, 0, 1, 0, 1}};
  const std::vector<int32_t> tokens = {1};
  EXPECT_THROW(loaded.executor->wait(loaded.executor->forward({rows, tokens, {}})), base::Error);
}

INSTANTIATE_TEST_SUITE_P(All, EncoderTest, testing::ValuesIn([] {
                           std::vector<Case> cases;
                           for (const auto& folder : Fixture::encoder_folders())
                             for (const auto& executor : test_executors())
                               cases.push_back({folder, executor});
                           return cases;
                         }()),
                         [](const auto& info) {
                           std::string name =
                               info.param.folder.filename().string() + "_" + info.param.executor.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Encoders, OtherExecutorsRefuseThePlanAndSayWhy) {
  const Fixture fixture(Fixture::encoder_folders().front());
  const ModelFiles files = fixture.open();
  for (const TestExecutor& one : test_executors()) {
    if (encodes(one.name) || !skip_reason(one.name).empty()) continue;
    const auto executor = one.make();
    try {
      executor->measure(files.plan, files.weights, {});
      ADD_FAILURE() << one.name << " takes it";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::kUnsupported);
      EXPECT_THAT(error.what(), testing::HasSubstr("the operation pool"));
    }
  }
}

class EncoderBitsTest : public testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(EncoderBitsTest, AnyNeighboursThreadsAndInstructions) {
  const auto [name, exact] = GetParam();
  const Fixture fixture(std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/models" / name);
  const ModelFiles files = fixture.open();
  const auto texts = texts_of(fixture);
  const auto load = [&, exact = exact](exec::cpu::Isa isa, int32_t threads) {
    return Loaded(files, std::make_unique<exec::cpu::CpuExecutor>(isa), exact, threads);
  };
  std::vector<std::vector<float>> alone;
  Loaded one = load(exec::cpu::Isa::kBest, 1);
  for (const Text& text : texts) alone.push_back(one.encode({text})[0]);
  const auto expect_same = [&](Loaded loaded, const std::vector<size_t>& chosen) {
    std::vector<Text> batch;
    for (const size_t i : chosen) batch.push_back(texts[i]);
    const auto got = loaded.encode(batch);
    for (size_t i = 0; i < chosen.size(); ++i)
      EXPECT_EQ(std::memcmp(got[i].data(), alone[chosen[i]].data(), got[i].size() * sizeof(float)), 0)
          << "text " << chosen[i];
  };
  expect_same(load(exec::cpu::Isa::kBest, 2), {0, 1, 2, 3, 4, 5});
  expect_same(load(exec::cpu::Isa::kBest, 3), {5, 4, 3, 2, 1, 0});
  expect_same(load(exec::cpu::Isa::kBest, 3), {2, 2, 5, 5, 1, 3, 4});
  expect_same(load(exec::cpu::Isa::kScalar, 2), {4, 1, 3});
}

INSTANTIATE_TEST_SUITE_P(All, EncoderBitsTest,
                         testing::Combine(testing::Values("bert", "bert-cls", "bert-score", "bert-q8"),
                                          testing::Bool()),
                         [](const auto& info) {
                           std::string name =
                               std::get<0>(info.param) + (std::get<1>(info.param) ? "_exact" : "_fast");
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock::models
