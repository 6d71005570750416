#include "store/registry.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "store/package_source.h"
#include "unit/store/scratch_folder.h"

namespace penstock::store {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;
const std::string kCommit(40, 'c');

class RegistryTest : public ScratchFolder {
 protected:
  RegistryTest() : registry_(options(), config::Environment({{"HOME", (root_ / "home").string()}})) {
    old_folder_ = fs::current_path();
    fs::create_directories(root_ / "work");
    fs::current_path(root_ / "work");
  }
  ~RegistryTest() override { fs::current_path(old_folder_); }

  RegistryOptions options() {
    RegistryOptions result;
    result.hub.cache = root_ / "hub";
    result.hub.offline = true;
    return result;
  }

  void add(const std::string& repo, const std::string& file, const std::string& etag,
           const std::string& text) {
    HubCache cache(root_ / "hub");
    write(cache.blob(repo, etag).lexically_relative(root_), text);
    cache.link(repo, kCommit, file, etag);
    cache.write_ref(repo, "main", kCommit);
  }

  void add_mlx(const std::string& repo) {
    add(repo, "config.json", "e1", "{}");
    add(repo, "model.safetensors", "e2", "weights");
  }

  base::Code code(const std::string& name) {
    try {
      registry_.require(name);
    } catch (const base::Error& error) {
      message_ = error.what();
      return error.code();
    }
    return base::Code::kInternal;
  }

  Registry registry_;
  fs::path old_folder_;
  std::string message_;
};

TEST(ParseRepoName, AllSpellings) {
  const auto plain = parse_repo_name("o/n");
  EXPECT_EQ(plain->repo, "o/n");
  EXPECT_EQ(plain->revision, "main");
  EXPECT_EQ(parse_repo_name("o/n:Q4_0@v1")->wanted, "Q4_0");
  EXPECT_EQ(parse_repo_name("o/n:Q4_0@v1")->revision, "v1");
  EXPECT_EQ(parse_repo_name("o/n/sub/x.gguf")->wanted, "sub/x.gguf");
  for (const char* bad : {"n", "o/n/m", "o/n:", "o/n@", "o/n:../x", "../n", "/o/n", "o/n/../x.gguf"}) {
    EXPECT_FALSE(parse_repo_name(bad)) << bad;
  }
}

TEST_F(RegistryTest, ML_23_ALocalFolderWinsOverTheHub) {
  add_mlx("o/n");
  EXPECT_EQ(registry_.require("o/n").path, root_ / "hub/models--o--n/snapshots" / kCommit);
  write("work/o/n/config.json", "{}");
  write("work/o/n/model.safetensors", "w");
  const Located located = registry_.require("o/n");
  EXPECT_EQ(located.path, "o/n");
  EXPECT_EQ(located.repo, "");
  EXPECT_EQ(registry_.require("o/n/").path, "o/n");
}

TEST_F(RegistryTest, ML_23_HomeAndTrailingSlash) {
  write("home/m/config.json", "{}");
  write("home/m/model.safetensors", "w");
  EXPECT_EQ(registry_.require("~/m/").path, root_ / "home/m");
  EXPECT_EQ(registry_.require((root_ / "home/m//").string()).path, root_ / "home/m");
  const auto file = write("home/x.gguf", "w");
  EXPECT_EQ(registry_.require("~/x.gguf").path, file);
  EXPECT_EQ(registry_.require("~/x.gguf").kind, Kind::kGgufFile);
}

TEST_F(RegistryTest, AStrayFolderDoesNotHideAnAlias) {
  write("work/smollm2/notes.txt", "x");
  EXPECT_EQ(registry_.find("smollm2"), std::nullopt);
  EXPECT_EQ(code("./smollm2"), base::Code::kCorrupt);
}

TEST_F(RegistryTest, ErrorsSayWhatToDo) {
  EXPECT_EQ(code("o/n"), base::Code::kNotFound);
  EXPECT_THAT(message_, HasSubstr("penstock pull o/n"));
  EXPECT_EQ(code("smollm"), base::Code::kInvalidRequest);
  EXPECT_THAT(message_, HasSubstr("smollm2"));
  EXPECT_EQ(code("/nowhere/x"), base::Code::kNotFound);
  EXPECT_EQ(code("missing.gguf"), base::Code::kNotFound);
  write("work/o/n/config.json", "{}");
  EXPECT_EQ(code("o/n"), base::Code::kCorrupt);
  EXPECT_THAT(message_, HasSubstr("safetensors"));
}

TEST_F(RegistryTest, AnUnfinishedRepositoryIsNotFound) {
  add("o/n", "config.json", "e1", "{}");
  EXPECT_EQ(registry_.find("o/n"), std::nullopt);
  ASSERT_EQ(registry_.list().size(), 1u);
  EXPECT_FALSE(registry_.list()[0].complete);
  EXPECT_THAT(registry_.list()[0].problem, HasSubstr("safetensors"));
}

TEST_F(RegistryTest, GgufRepositories) {
  add("o/g", "m-Q4_0.gguf", "e1", "four");
  EXPECT_EQ(registry_.require("o/g").path.filename(), "m-Q4_0.gguf");
  EXPECT_EQ(registry_.find("o/g:Q8_0"), std::nullopt);
  add("o/g", "m-Q8_0.gguf", "e2", "eight");
  EXPECT_EQ(registry_.require("o/g:q8_0").path.filename(), "m-Q8_0.gguf");
  EXPECT_EQ(registry_.require("o/g/m-Q8_0.gguf").path.filename(), "m-Q8_0.gguf");
  const auto listed = registry_.list();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[1].name, "o/g:m-Q8_0.gguf");
  EXPECT_EQ(listed[1].size_bytes, 5u);
  EXPECT_EQ(registry_.remove("o/g:Q8_0"), 5u);
  EXPECT_EQ(registry_.list().size(), 1u);
  EXPECT_EQ(registry_.remove("o/g"), 4u + kCommit.size());
  EXPECT_TRUE(registry_.list().empty());
}

TEST_F(RegistryTest, AnAliasIsItsPinnedBlobOnly) {
  const Alias& alias = *find_alias("smollm2");
  add(alias.sources[0].repo, alias.file, std::string(64, 'b'), "another file of that name");
  EXPECT_EQ(registry_.find("smollm2"), std::nullopt);
  add(alias_repo(alias), alias.file, alias.sha256, "weights");
  EXPECT_EQ(registry_.require("smollm2").repo, "penstock/smollm2");
  EXPECT_EQ(registry_.show("smollm2").licence, "Apache-2.0");
  EXPECT_EQ(registry_.show("smollm2").size_bytes, 7u);
  EXPECT_EQ(registry_.list().back().name, "smollm2");
  EXPECT_GT(registry_.remove("smollm2"), 0u);
  EXPECT_EQ(registry_.find("smollm2"), std::nullopt);
  add(alias.sources[0].repo, alias.file, alias.sha256, "weights");
  EXPECT_EQ(registry_.require("smollm2").repo, alias.sources[0].repo);
}

TEST_F(RegistryTest, AnAliasOfAFolderIsThereWhenAllItsFilesAre) {
  const Alias& alias = *find_alias("all-minilm");
  const std::string repo = alias_repo(alias);
  add(repo, alias.file, alias.sha256, "weights");
  EXPECT_EQ(registry_.find("all-minilm"), std::nullopt);
  for (const std::string& file : alias.beside) add(repo, file, "e" + std::to_string(file.size()), "{}");
  const Located located = registry_.require("all-minilm");
  EXPECT_EQ(located.kind, Kind::kMlxDirectory);
  EXPECT_TRUE(fs::exists(located.path / "1_Pooling/config.json"));
  EXPECT_EQ(alias_of_file(located.path), &alias);
  EXPECT_EQ(registry_.list().back().name, "all-minilm");
  EXPECT_EQ(registry_.show("all-minilm").licence, "Apache-2.0");
  EXPECT_GT(registry_.remove("all-minilm"), 0u);
  EXPECT_EQ(registry_.find("all-minilm"), std::nullopt);
}

TEST_F(RegistryTest, RemoveLeavesLocalFilesAlone) {
  const auto file = write("work/x.gguf", "w");
  EXPECT_THROW(registry_.remove("./x.gguf"), base::Error);
  EXPECT_THROW(registry_.remove("x.gguf"), base::Error);
  EXPECT_THROW(registry_.remove("o/n"), base::Error);
  EXPECT_TRUE(fs::exists(file));
}

TEST_F(RegistryTest, OfflineOpensNoConnection) {
  EXPECT_THROW(registry_.pull("o/n", {}), base::Error);
  EXPECT_THROW(registry_.pull("smollm2", {}), base::Error);
  EXPECT_THROW(registry_.pick_default(uint64_t{1} << 40, {}), base::Error);
  add_mlx("o/n");
  EXPECT_EQ(registry_.pull("o/n", {}).repo, "o/n");
}

TEST_F(RegistryTest, TheDefaultIsTheStrongestThatIsHereAndFits) {
  const Alias& alias = *find_alias("smollm2");
  add(alias_repo(alias), alias.file, alias.sha256, "weights");
  EXPECT_EQ(registry_.pick_default(uint64_t{64} << 30, {}), "smollm2");
  add_mlx(default_candidates().front().name);
  EXPECT_EQ(registry_.pick_default(uint64_t{64} << 30, {}), default_candidates().front().name);
  EXPECT_EQ(registry_.pick_default(uint64_t{2} << 30, {}), "smollm2");
}

}  // namespace
}  // namespace penstock::store
