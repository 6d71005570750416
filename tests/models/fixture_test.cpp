// Every family's fixture on every executor: prefill, decode after prefill, a mixed-length batch, and each
// config field that matters. The expected logits come from the reference that the fixture names.
#include "models/fixture.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/logits_runner.h"
#include "models/executors.h"
#include "quant/format.h"

namespace penstock::models {
namespace {

using base::Json;
using Feed = exec::LogitsRunner::Feed;

constexpr float kTolerance = 5e-4f;  // logits have a standard deviation of 1 to 3
const exec::Limits kLimits{
    .max_slots = 3, .max_batch_tokens = 512, .max_context = 320, .threads = 2, .exact = true};

float difference(std::span<const float> a, std::span<const float> b) {
  float most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::isnan(a[i]) ? INFINITY : std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

struct Case {
  std::filesystem::path folder;
  TestExecutor executor;
};

class FixtureTest : public testing::TestWithParam<Case> {
 protected:
  FixtureTest() : fixture_(GetParam().folder) {}

  void SetUp() override {
    const std::string reason = skip_reason(GetParam().executor.name);
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  std::span<const float> at(const std::vector<float>& logits, int64_t position) const {
    return std::span(logits).subspan(static_cast<size_t>(position * fixture_.vocab()),
                                     static_cast<size_t>(fixture_.vocab()));
  }

  std::vector<std::vector<float>> run(const ModelFiles& files, const std::vector<Feed>& feeds) const {
    const auto executor = GetParam().executor.make();
    exec::Limits limits = kLimits;
    limits.n_blocks = exec::LogitsRunner::blocks_for(*executor, files.plan, limits);
    executor->load(files.plan, files.weights, limits);
    return exec::LogitsRunner(*executor, files.plan, limits).run(feeds);
  }

  /// The row of prompt 0's last position with the config as it is.
  size_t unchanged_row() const {
    const Json& rows = fixture_.expected()["rows"];
    const auto last = static_cast<int64_t>(fixture_.prompts()[0].size()) - 1;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i]["prompt"] == 0 && rows[i]["position"] == last && !rows[i].contains("variant")) return i;
    }
    throw std::logic_error("no unchanged row");
  }

  void expect_rows(const std::vector<std::vector<float>>& logits) const {
    const Json& rows = fixture_.expected()["rows"];
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t prompt = rows[i]["prompt"];
      if (rows[i].contains("variant") || prompt >= logits.size()) continue;
      EXPECT_LT(difference(at(logits[prompt], rows[i]["position"]), fixture_.row(i)), kTolerance)
          << "prompt " << prompt << " position " << rows[i]["position"];
    }
  }

  Fixture fixture_;
};

TEST_P(FixtureTest, PrefillAndMixedLengthBatch) {
  const ModelFiles files = fixture_.open();
  std::vector<Feed> feeds;
  for (const auto& prompt : fixture_.prompts()) feeds.push_back({prompt, {64, 128, 64}});
  expect_rows(run(files, feeds));
}

TEST_P(FixtureTest, DecodeAfterPrefill) {
  const ModelFiles files = fixture_.open();
  const auto tokens = fixture_.prompts()[0];
  const int32_t prompt =
      static_cast<int32_t>(tokens.size()) - fixture_.expected()["decode"]["tokens"].get<int32_t>();
  expect_rows(run(files, {{tokens, {prompt, 1}, prompt}}));
}

TEST_P(FixtureTest, EveryFieldThatMattersIsHonouredOrRefused) {
  const auto prompt = fixture_.prompts()[0];
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
    const auto logits = run(*files, {{prompt, {256}}});
    const size_t row = variant["expect"] == "same" ? unchanged_row() : variant["row"].get<size_t>();
    EXPECT_LT(difference(at(logits[0], static_cast<int64_t>(prompt.size()) - 1), fixture_.row(row)),
              kTolerance);
  }
}

/// Ids from the likeliest on are declared padding: greedy and tempered draws are below it.
TEST_P(FixtureTest, IdsThatPadTheHeadAreNeverDrawn) {
  const ModelFiles files = fixture_.open();
  auto prompt = fixture_.prompts()[0];
  prompt.resize(std::min(prompt.size(), size_t{40}));
  const auto all = run(files, {{prompt, {64}}});
  const auto row = at(all[0], static_cast<int64_t>(prompt.size()) - 1);
  const auto drawable = std::max(std::max_element(row.begin(), row.end()) - row.begin(), long{1});
  const auto expected = std::max_element(row.begin(), row.begin() + drawable) - row.begin();

  const auto executor = GetParam().executor.make();
  exec::Limits limits = kLimits;
  limits.vocab_tokens = [drawable] { return static_cast<int32_t>(drawable); };
  limits.n_blocks = exec::LogitsRunner::blocks_for(*executor, files.plan, limits);
  executor->load(files.plan, files.weights, limits);
  std::vector<exec::TableEdit> edits;
  std::vector<exec::Row> rows;
  std::vector<int32_t> tokens;
  const auto n = static_cast<int32_t>(prompt.size());
  for (int32_t slot = 0; slot < 3; ++slot) {
    for (int32_t group = 0; group < static_cast<int32_t>(files.plan.kv_groups.size()); ++group)
      edits.push_back({slot, group, 0, slot});
    rows.push_back({slot, exec::Role::kPrompt, slot * n, n, 0, 1});
    tokens.insert(tokens.end(), prompt.begin(), prompt.end());
  }
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (int32_t slot = 0; slot < 3; ++slot) executor->reset_slot(slot, prompt, {});
    std::vector<exec::SampleRow> draws(3);
    for (int32_t i = 0; i < 3; ++i) {
      draws[static_cast<size_t>(i)].logit_row = i;
      draws[static_cast<size_t>(i)].params.temperature = static_cast<float>(i);
      draws[static_cast<size_t>(i)].params.seed = seed;
    }
    const exec::Ticket ticket = executor->forward({rows, tokens, edits});
    executor->sample(ticket, {draws, {}});
    const auto drawn = executor->wait(ticket).tokens;
    EXPECT_EQ(drawn[0], expected);
    for (const int32_t token : drawn) {
      EXPECT_GE(token, 0);
      EXPECT_LT(token, drawable);
    }
    executor->release(ticket);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FixtureTest, testing::ValuesIn([] {
                           std::vector<Case> cases;
                           for (const auto& folder : Fixture::folders()) {
                             for (const auto& executor : test_executors())
                               cases.push_back({folder, executor});
                           }
                           return cases;
                         }()),
                         [](const auto& info) {
                           std::string name =
                               info.param.folder.filename().string() + "_" + info.param.executor.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Fixtures, QT_02_QT_03_QT_11_EveryKindOfQuantisationHasOne) {
  std::set<std::string> modes, kinds;
  for (const auto& folder : Fixture::folders()) {
    const ModelFiles files = Fixture(folder).open();
    if (!files.config.contains("quantization")) continue;
    modes.insert(files.config["quantization"].value("mode", "affine"));
    const auto is_packed = [&](const std::string& module) {
      return files.checkpoint->find(module + ".scales") != nullptr;
    };
    if (is_packed("model.embed_tokens")) kinds.insert(files.spec.tied_head ? "tied head" : "embedding");
    if (is_packed("lm_head")) kinds.insert("head");
    std::set<int> bits;
    for (const auto& matrix : files.weights) {
      if (matrix.format->name() == "affine") bits.insert(matrix.bits);
    }
    if (bits.size() > 1) kinds.insert("mixed bits");
    for (const auto& [key, value] : files.config["quantization"].items()) {
      if (value == false) kinds.insert("kept as float");
    }
  }
  EXPECT_EQ(modes, (std::set<std::string>{"affine", "mxfp4", "mxfp8", "nvfp4"}));
  EXPECT_EQ(kinds, (std::set<std::string>{"embedding", "head", "kept as float", "mixed bits", "tied head"}));
}

}  // namespace
}  // namespace penstock::models
