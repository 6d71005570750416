#include "config/settings.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("settings_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    values_["HOME"] = folder_.string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& text) {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }

  Loaded load_all() { return load({flags_, Environment(values_), file_}); }

  std::string error() {
    try {
      load_all();
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::Code::kInvalidRequest);
      return e.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }

  std::filesystem::path folder_;
  std::map<std::string, std::string> flags_, values_;
  std::optional<std::filesystem::path> file_;
};

TEST_F(SettingsTest, DefaultsComeFromTheTable) {
  const Loaded loaded = load_all();
  EXPECT_EQ(loaded.settings.host, "127.0.0.1");
  EXPECT_EQ(loaded.settings.port, 11434);
  EXPECT_FALSE(loaded.settings.exact);
  EXPECT_TRUE(loaded.settings.cors_origins.empty());
  EXPECT_TRUE(loaded.origin.empty());
}

TEST_F(SettingsTest, EveryDefaultTextParsesToTheDefault) {
  for (const Option& option : options()) {
    Settings settings;
    set_from_text(settings, option, option.default_text, "default");
    EXPECT_EQ(show(settings, option), show(Settings{}, option)) << option.name;
  }
}

TEST_F(SettingsTest, FlagWinsOverEnvironmentOverFileOverDefault) {
  write(".config/penstock/config.json",
        R"({"port": 1, "threads": 1, "max_queue": 7, "cors_origins": ["a", "b"]})");
  values_["PENSTOCK_PORT"] = "2";
  values_["PENSTOCK_THREADS"] = "2";
  flags_["port"] = "3";
  const Loaded loaded = load_all();
  EXPECT_EQ(loaded.settings.port, 3);
  EXPECT_EQ(loaded.settings.threads, 2);
  EXPECT_EQ(loaded.settings.max_queue, 7);
  EXPECT_THAT(loaded.settings.cors_origins, ElementsAre("a", "b"));
  EXPECT_EQ(loaded.origin.at("port"), "--port");
  EXPECT_EQ(loaded.origin.at("threads"), "PENSTOCK_THREADS");
  EXPECT_THAT(loaded.origin.at("max_queue"), HasSubstr("config.json"));
}

TEST_F(SettingsTest, ANamedFileReplacesTheUsersAndMustExist) {
  write(".config/penstock/config.json", R"({"port": 1})");
  file_ = write("other.json", R"({"threads": 5})");
  EXPECT_EQ(load_all().settings.port, 11434);
  EXPECT_EQ(load_all().settings.threads, 5);
  file_ = folder_ / "none.json";
  EXPECT_THAT(error(), HasSubstr("none.json"));
}

TEST_F(SettingsTest, RangeErrorsNameTheSettingAndItsOrigin) {
  flags_["port"] = "70000";
  EXPECT_THAT(error(), HasSubstr("expected port to be 0 to 65535 (from --port); got '70000'"));
  flags_.clear();
  values_["PENSTOCK_MAX_NUM_SEQS"] = "0";
  EXPECT_THAT(error(), HasSubstr("from PENSTOCK_MAX_NUM_SEQS"));
  values_.erase("PENSTOCK_MAX_NUM_SEQS");
  file_ = write("c.json", R"({"prefill_chunk_tokens": 100})");
  EXPECT_THAT(error(), HasSubstr("a multiple of 64 (from " + file_->string()));
}

TEST_F(SettingsTest, RefusesTextsThatAreNotNumbers) {
  for (const char* text : {"", "x", "1x", "1.5", "-1", "99999999999999999999", " 1"}) {
    flags_["port"] = text;
    EXPECT_THAT(error(), HasSubstr("port")) << text;
  }
}

TEST_F(SettingsTest, BytesTakeSuffixes) {
  const std::map<std::string, int64_t> cases{{"2048", 2048}, {"2K", 2048},      {"3KiB", 3072},
                                             {"5KB", 5000},  {"2MiB", 2 << 20}, {"4G", int64_t{4} << 30}};
  for (const auto& [text, bytes] : cases) {
    flags_["max_body_bytes"] = text;
    EXPECT_EQ(load_all().settings.max_body_bytes, bytes) << text;
  }
  for (const char* text : {"1KX", "5G", "9000000000000T", "1B", "K"}) {
    flags_["max_body_bytes"] = text;
    EXPECT_THAT(error(), HasSubstr("max_body_bytes")) << text;
  }
}

TEST_F(SettingsTest, NumbersMayBeUnset) {
  EXPECT_FALSE(load_all().settings.default_temperature);
  values_["PENSTOCK_DEFAULT_TEMPERATURE"] = "0.25";
  file_ = write("c.json", R"({"default_top_p": 0.5, "default_top_k": 7})");
  EXPECT_EQ(load_all().settings.default_temperature, 0.25);
  EXPECT_EQ(load_all().settings.default_top_p, 0.5);
  EXPECT_EQ(load_all().settings.default_top_k, 7);
  EXPECT_EQ(show(load_all().settings, *find_option("default_temperature")), "0.25");
  flags_["default_temperature"] = "";
  EXPECT_FALSE(load_all().settings.default_temperature);
  for (const char* text : {"x", "-1", "2.5", "nan", "1x", " 1", "inf"}) {
    flags_["default_temperature"] = text;
    EXPECT_THAT(error(), HasSubstr("expected default_temperature to be a number from 0 to 2")) << text;
  }
  flags_ = {{"default_top_k", "1.5"}};
  EXPECT_THAT(error(), HasSubstr("a whole number from 0 to 2147483647"));
}

TEST_F(SettingsTest, UnknownNamesInTheFileAreErrorsAndInTheEnvironmentWarnings) {
  values_["PENSTOCK_PROT"] = "1";
  values_["PENSTOCK_JOBS"] = "2";  // of the set-up script
  EXPECT_THAT(load_all().warnings, ElementsAre(HasSubstr("PENSTOCK_PROT")));
  file_ = write("c.json", R"({"prot": 1})");
  EXPECT_THAT(error(), HasSubstr("'prot'"));
  file_ = write("c.json", R"({"port": true})");
  EXPECT_THAT(error(), HasSubstr("port"));
}

TEST_F(SettingsTest, ChoicesAndBools) {
  flags_["executor"] = "gpu";
  EXPECT_THAT(error(), HasSubstr("one of auto, cpu, cuda, mlx"));
  flags_["executor"] = "mlx";
  flags_["exact"] = "maybe";
  EXPECT_THAT(error(), HasSubstr("exact"));
  flags_["exact"] = "true";
  EXPECT_TRUE(load_all().settings.exact);
}

TEST_F(SettingsTest, TheKeyIsNeverShown) {
  flags_["api_key"] = "sekrit";
  const Loaded loaded = load_all();
  EXPECT_EQ(loaded.settings.api_key, "sekrit");
  EXPECT_EQ(show(loaded.settings, *find_option("api_key")), "(set)");
  flags_.clear();
  file_ = write("c.json", R"({"api_key": {"sekrit": 1}})");
  EXPECT_THAT(error(), Not(HasSubstr("sekrit")));
}

TEST_F(SettingsTest, TheKeyMayComeFromAFile) {
  flags_["api_key_file"] = write("key", "k1\nmore\n").string();
  EXPECT_EQ(load_all().settings.api_key, "k1");
  values_["PENSTOCK_API_KEY"] = "weaker";
  EXPECT_EQ(load_all().settings.api_key, "k1");
  flags_["api_key"] = "k2";
  EXPECT_THAT(error(), HasSubstr("one of api_key and api_key_file"));
  flags_.erase("api_key");
  flags_["api_key_file"] = write("key", "\n").string();
  EXPECT_THAT(error(), HasSubstr("first line"));
  flags_["api_key_file"] = (folder_ / "none").string();
  EXPECT_THAT(error(), HasSubstr("none"));
}

}  // namespace
}  // namespace penstock::config
