#include "config/environment.h"

#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::config {
namespace {

using Values = std::map<std::string, std::string>;

TEST(Environment, ReadsTheProcess) {
  setenv("PENSTOCK_TEST_VALUE", "a=b", 1);
  EXPECT_EQ(Environment::process().get("PENSTOCK_TEST_VALUE"), "a=b");
  unsetenv("PENSTOCK_TEST_VALUE");
  EXPECT_EQ(Environment::process().get("PENSTOCK_TEST_VALUE"), std::nullopt);
}

TEST(Environment, ExpandsTheHomeFolder) {
  const Environment environment(Values{{"HOME", "/h"}});
  EXPECT_EQ(environment.expand_user("~"), "/h");
  EXPECT_EQ(environment.expand_user("~/x/"), "/h/x/");
  EXPECT_EQ(environment.expand_user("~x"), "~x");
  EXPECT_EQ(environment.config_home(), "/h/.config");
  EXPECT_EQ(environment.state_home(), "/h/.local/state");
  EXPECT_EQ(Environment(Values{{"HOME", "/h"}, {"XDG_STATE_HOME", "~/s"}}).state_home(), "/h/s");
}

TEST(ReadHub, CachePrecedence) {
  Values values{{"HOME", "/h"}};
  EXPECT_EQ(read_hub(Environment(values)).cache, "/h/.cache/huggingface/hub");
  values["XDG_CACHE_HOME"] = "/c";
  EXPECT_EQ(read_hub(Environment(values)).cache, "/c/huggingface/hub");
  values["HF_HOME"] = "~/hf";
  EXPECT_EQ(read_hub(Environment(values)).cache, "/h/hf/hub");
  values["HUGGINGFACE_HUB_CACHE"] = "/old";
  EXPECT_EQ(read_hub(Environment(values)).cache, "/old");
  values["HF_HUB_CACHE"] = "/new";
  EXPECT_EQ(read_hub(Environment(values)).cache, "/new");
}

TEST(ReadHub, TokenPrecedence) {
  const auto home = std::filesystem::path(::testing::TempDir()) / ("hub_" + std::to_string(getpid()));
  std::filesystem::create_directories(home);
  Values values{{"HF_HOME", home.string()}};
  EXPECT_EQ(read_hub(Environment(values)).token, "");
  std::ofstream(home / "token") << " file \n";
  EXPECT_EQ(read_hub(Environment(values)).token, "file");
  EXPECT_EQ(read_hub(Environment(values)).token_origin, (home / "token").string());
  values["HUGGING_FACE_HUB_TOKEN"] = "oldest";
  EXPECT_EQ(read_hub(Environment(values)).token, "oldest");
  values["HF_HUB_TOKEN"] = "old";
  EXPECT_EQ(read_hub(Environment(values)).token, "old");
  values["HF_TOKEN"] = "new\n";
  EXPECT_EQ(read_hub(Environment(values)).token, "new");
  EXPECT_EQ(read_hub(Environment(values)).token_origin, "HF_TOKEN");
  std::filesystem::remove_all(home);
}

TEST(ReadHub, OfflineAndEndpoint) {
  EXPECT_FALSE(read_hub(Environment(Values{{"HF_HUB_OFFLINE", "0"}})).offline);
  for (const char* on : {"1", "true", "YES", "On"}) {
    EXPECT_TRUE(read_hub(Environment(Values{{"HF_HUB_OFFLINE", on}})).offline) << on;
  }
  EXPECT_EQ(read_hub(Environment(Values{})).endpoint, "https://huggingface.co");
  EXPECT_EQ(read_hub(Environment(Values{{"HF_MIRROR", "http://m/"}})).endpoint, "http://m");
  EXPECT_EQ(read_hub(Environment(Values{{"HF_MIRROR", "http://m/"}, {"HF_ENDPOINT", "http://e"}})).endpoint,
            "http://e");
}

TEST(ReadPackageIndex, EnvironmentThenFilesThenDefault) {
  const auto home = std::filesystem::path(::testing::TempDir()) / ("pip_" + std::to_string(getpid()));
  std::filesystem::create_directories(home / ".config/pip");
  Values values{{"HOME", home.string()}, {"PIP_CONFIG_FILE", "/dev/null"}};
  EXPECT_EQ(read_package_index(Environment(values)).url, "https://pypi.org/simple");
  values.erase("PIP_CONFIG_FILE");
  std::ofstream(home / ".config/pip/pip.conf")
      << "[global]\n# index-url = http://no\nindex-url = http://global/simple/\n"
      << "[install]\nindex-url = http://install\n";
  EXPECT_EQ(read_package_index(Environment(values)).url, "http://global/simple");
  std::ofstream(home / "named.conf") << "[download]\nindex_url: http://download/simple\n";
  values["PIP_CONFIG_FILE"] = (home / "named.conf").string();
  EXPECT_EQ(read_package_index(Environment(values)).url, "http://download/simple");
  values["PIP_INDEX_URL"] = "http://environment/simple";
  EXPECT_EQ(read_package_index(Environment(values)).url, "http://environment/simple");
  EXPECT_EQ(read_package_index(Environment(values)).origin, "PIP_INDEX_URL");
  std::filesystem::remove_all(home);
}

}  // namespace
}  // namespace penstock::config
