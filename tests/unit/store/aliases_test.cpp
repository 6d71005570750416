#include "store/aliases.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/digest.h"
#include "store/hub_cache.h"

namespace penstock::store {
namespace {

TEST(Aliases, TheDefaultModelIsPinned) {
  const Alias* alias = find_alias("smollm2");
  ASSERT_NE(alias, nullptr);
  EXPECT_EQ(alias->sha256, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
  EXPECT_TRUE(alias->chat);
  EXPECT_EQ(find_alias("smollm"), nullptr);
}

TEST(Aliases, EachHasItsPinsAndTwoSources) {
  std::set<std::string> names;
  for (const Alias& alias : aliases()) {
    EXPECT_TRUE(names.insert(alias.name).second) << alias.name;
    EXPECT_TRUE(is_hex(alias.sha256, 64)) << alias.name;
    EXPECT_GT(alias.size_bytes, 1u << 20) << alias.name;
    EXPECT_TRUE(is_safe_file(alias.file)) << alias.name;
    EXPECT_EQ(alias.sources.size(), 2u) << alias.name;
    for (const Source& source : alias.sources) {
      EXPECT_NE(source.repo.empty(), source.parts.empty()) << alias.name;
      EXPECT_TRUE(source.repo.empty() || is_repo_id(source.repo)) << source.repo;
      for (const PackagePart& part : source.parts) EXPECT_TRUE(is_hex(part.sha256, 64)) << part.package;
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"all-minilm", "gemma3-270m", "qwen2.5-coder-0.5b",
                                          "qwen2.5-coder-1.5b", "smollm2"}));
  EXPECT_THAT(find_alias("all-minilm")->beside, testing::Contains("1_Pooling/config.json"));
  EXPECT_TRUE(find_alias("smollm2")->beside.empty());
  EXPECT_FALSE(find_alias("gemma3-270m")->chat);
}

TEST(Aliases, CarryWhatTheirAuthorsRecommend) {
  EXPECT_EQ(find_alias("smollm2")->sampling, (base::Json{{"temperature", 0.2}, {"top_p", 0.9}}));
  for (const char* name : {"qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"}) {
    EXPECT_EQ(find_alias(name)->sampling,
              (base::Json{{"temperature", 0.7}, {"top_p", 0.8}, {"top_k", 20}, {"repetition_penalty", 1.1}}));
  }
  EXPECT_TRUE(find_alias("gemma3-270m")->sampling.is_null());
}

TEST(Aliases, TheLastCandidateFitsEveryMachine) {
  ASSERT_FALSE(default_candidates().empty());
  EXPECT_EQ(default_candidates().back().name, "smollm2");
  EXPECT_EQ(default_candidates().back().min_memory_bytes, 0u);
}

}  // namespace
}  // namespace penstock::store
