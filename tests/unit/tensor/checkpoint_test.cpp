#include "tensor/checkpoint.h"

#include <gmock/gmock.h>

#include "tensor/safetensors.h"
#include "unit/tensor/gguf_bytes.h"
#include "unit/tensor/temporary_directory.h"

namespace penstock::tensor {
namespace {

using testing::HasSubstr;

void write_shard(const std::filesystem::path& path, const std::vector<std::string>& names) {
  static const float kOne[] = {1};
  std::vector<NamedView> tensors;
  for (const std::string& name : names)
    tensors.push_back({name, {DType::kF32, {1}, std::as_bytes(std::span(kOne))}});
  write_safetensors(path, tensors);
}

std::string error_at(const std::filesystem::path& path) {
  return error_of([&] { Checkpoint::open(path); });
}

TEST(Checkpoint, SingleFile) {
  const TemporaryDirectory directory;
  write_shard(directory / "model.safetensors", {"a", "b"});
  write_shard(directory / "adapters.safetensors", {"c"});
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_NE(checkpoint->find("a"), nullptr);
  EXPECT_EQ(checkpoint->find("c"), nullptr);
  EXPECT_EQ(checkpoint->gguf(), nullptr);
  EXPECT_EQ(Checkpoint::open(directory / "adapters.safetensors")->tensors().size(), 1u);
  checkpoint->drop(checkpoint->find("a")->bytes);
}

TEST(Checkpoint, ML_11_ShardsWithAndWithoutIndex) {
  const TemporaryDirectory directory;
  write_shard(directory / "model-00001-of-00002.safetensors", {"a"});
  EXPECT_THAT(error_at(directory.path()), HasSubstr("2 shards like"));
  write_shard(directory / "model-00002-of-00002.safetensors", {"b"});
  EXPECT_EQ(Checkpoint::open(directory.path())->tensors().size(), 2u);
  directory.write("model.safetensors.index.json",
                  R"({"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors",
                  "b":"model-00002-of-00002.safetensors"}})");
  EXPECT_EQ(Checkpoint::open(directory.path())->tensors().size(), 2u);
}

TEST(Checkpoint, ML_11_IndexLies) {
  const TemporaryDirectory directory;
  write_shard(directory / "model-1.safetensors", {"a"});
  const auto index = [&](const char* text) {
    directory.write("model.safetensors.index.json", text);
    return error_at(directory.path());
  };
  EXPECT_EQ(index(R"({"weight_map":{"a":"model-1.safetensors"}})"), "");
  EXPECT_THAT(index(R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})"),
              HasSubstr("the shard model-2.safetensors"));
  EXPECT_THAT(index(R"({"weight_map":{"a":"model-1.safetensors","lost":"model-1.safetensors"}})"),
              HasSubstr("expected lost in model-1.safetensors"));
  EXPECT_THAT(index(R"({"weight_map":{"a":"../model-1.safetensors"}})"), HasSubstr("plain file names"));
  EXPECT_THAT(index(R"({"weight_map":{"a":1}})"), HasSubstr("a file name for a"));
  EXPECT_THAT(index(R"({"weight_map":{"a":"x","a":"y"}})"), HasSubstr("two of a"));
  EXPECT_THAT(index(R"({"weight_map":{}})"), HasSubstr("weight_map"));
  EXPECT_THAT(index("[1]"), HasSubstr("weight_map"));
  EXPECT_THAT(index("{"), HasSubstr("a JSON header"));
  write_shard(directory / "model-2.safetensors", {"a"});
  EXPECT_THAT(index(R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})"),
              HasSubstr("a second a"));
}

TEST(Checkpoint, NothingToLoad) {
  const TemporaryDirectory directory;
  EXPECT_THAT(error_at(directory / "none"), HasSubstr("no such file or directory"));
  EXPECT_THAT(error_at(directory.path()), HasSubstr("model*.safetensors or a .gguf file"));
  directory.write("pytorch_model.bin", "x");
  EXPECT_THAT(error_at(directory.path()), HasSubstr("PyTorch pickles"));
}

TEST(Checkpoint, GgufAloneAndInADirectory) {
  const TemporaryDirectory directory;
  const std::string file = GgufBytes().u32("k", 5).tensor("a", {2}, 0, 0).finish(8);
  const auto path = directory.write("m.gguf", file);
  for (const auto& at : {path, directory.path()}) {
    const auto checkpoint = Checkpoint::open(at);
    ASSERT_NE(checkpoint->gguf(), nullptr);
    EXPECT_EQ(checkpoint->gguf()->integer("k"), 5);
    EXPECT_EQ(checkpoint->find("a")->shape, Shape{2});
  }
  directory.write("n.gguf", file);
  EXPECT_THAT(error_at(directory.path()), HasSubstr("one GGUF file"));
}

}  // namespace
}  // namespace penstock::tensor
