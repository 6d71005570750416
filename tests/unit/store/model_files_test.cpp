#include "store/model_files.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "unit/store/scratch_folder.h"

namespace penstock::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InspectFolder : public ScratchFolder {};

TEST_F(InspectFolder, SingleFileAndShards) {
  EXPECT_FALSE(inspect_folder(root_).complete);
  write("model-00001-of-00002.safetensors", "x");
  EXPECT_THAT(inspect_folder(root_).problem, HasSubstr("config.json"));
  write("config.json", "{}");
  EXPECT_TRUE(inspect_folder(root_).complete);
  write(
      "model.safetensors.index.json",
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})");
  EXPECT_FALSE(inspect_folder(root_).complete);
  EXPECT_THAT(inspect_folder(root_).problem, HasSubstr("model-00002-of-00002.safetensors"));
  write("model-00002-of-00002.safetensors", "");
  EXPECT_FALSE(inspect_folder(root_).complete);
  write("model-00002-of-00002.safetensors", "x");
  EXPECT_TRUE(inspect_folder(root_).complete);
  write("model.safetensors.index.json", "{}");
  EXPECT_THAT(inspect_folder(root_).problem, HasSubstr("weight_map"));
}

TEST_F(InspectFolder, BrokenLinksAreMissingFiles) {
  write("config.json", "{}");
  std::filesystem::create_symlink("../none", root_ / "model.safetensors");
  EXPECT_FALSE(inspect_folder(root_).complete);
}

TEST_F(InspectFolder, GgufRepositories) {
  write("b-Q8_0.gguf", "x");
  write("sub/a-Q4_0.gguf", "x");
  const Inspection inspection = inspect_folder(root_);
  EXPECT_TRUE(inspection.complete);
  EXPECT_EQ(inspection.kind, Kind::kGgufFile);
  EXPECT_THAT(inspection.gguf_files, ElementsAre("b-Q8_0.gguf", "sub/a-Q4_0.gguf"));
}

const std::vector<std::string> kGgufs{"m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m.Q8_0.gguf", "sub/m-q4_0.gguf",
                                      "mmproj-F16.gguf"};

TEST(PickGguf, ByQuantAndByFile) {
  EXPECT_EQ(pick_gguf(kGgufs, "", "o/n"), "m-Q4_K_M.gguf");
  EXPECT_EQ(pick_gguf(kGgufs, "q8_0", "o/n"), "m.Q8_0.gguf");
  EXPECT_EQ(pick_gguf(kGgufs, "Q4_0", "o/n"), "sub/m-q4_0.gguf");
  EXPECT_EQ(pick_gguf(kGgufs, "sub/m-q4_0.gguf", "o/n"), "sub/m-q4_0.gguf");
  EXPECT_EQ(pick_gguf({"only-weird.gguf"}, "", "o/n"), "only-weird.gguf");
}

TEST(PickGguf, NamesTheChoicesWhenNoneFits) {
  for (const char* wanted : {"Q4_K", "Q5_0", "m.gguf"}) {
    try {
      pick_gguf(kGgufs, wanted, "o/n");
      ADD_FAILURE() << wanted;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::kNotFound);
      EXPECT_THAT(error.what(), HasSubstr("m.Q8_0.gguf"));
    }
  }
  EXPECT_THROW(pick_gguf({"a-Q4_0.gguf", "b-Q4_0.gguf"}, "", "o/n"), base::Error);
}

TEST(PickGguf, RefusesSplitFiles) {
  try {
    pick_gguf({"m-Q4_0-00001-of-00002.gguf", "m-Q4_0-00002-of-00002.gguf"}, "Q4_0", "o/n");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kUnsupported);
  }
}

TEST(FilesToFetch, TakesAModelAndNothingElse) {
  const std::vector<std::string> files{".gitattributes",
                                       "README.md",
                                       "config.json",
                                       "tokenizer.json",
                                       "model.safetensors",
                                       "pytorch_model.bin",
                                       "consolidated.safetensors",
                                       "modeling_x.py",
                                       "x.pt",
                                       "chat_template.jinja",
                                       "additional_chat_templates/tool_use.jinja",
                                       "onnx/model.onnx",
                                       "sub/model.safetensors",
                                       "m-Q4_0.gguf"};
  EXPECT_THAT(files_to_fetch(files, "", "o/n"),
              ElementsAre("config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja",
                          "additional_chat_templates/tool_use.jinja"));
  EXPECT_THAT(files_to_fetch(files, "Q4_0", "o/n"), ElementsAre("m-Q4_0.gguf"));
  EXPECT_THAT(files_to_fetch({"README.md", "m-Q4_0.gguf"}, "", "o/n"), ElementsAre("m-Q4_0.gguf"));
  EXPECT_THAT(files_to_fetch({"config.json", "weights.safetensors"}, "", "o/n"),
              ElementsAre("config.json", "weights.safetensors"));
  EXPECT_THROW(files_to_fetch({"pytorch_model.bin", "config.json"}, "", "o/n"), base::Error);
  EXPECT_THROW(files_to_fetch({"model.safetensors"}, "", "o/n"), base::Error);
}

}  // namespace
}  // namespace penstock::store
