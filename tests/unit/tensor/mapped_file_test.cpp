#include "tensor/mapped_file.h"

#include <cstring>

#include <gmock/gmock.h>

#include "unit/tensor/temporary_directory.h"

namespace penstock::tensor {
namespace {

using testing::HasSubstr;

std::string error_at(const std::filesystem::path& path) {
  return error_of([&] { MappedFile::open(path); });
}

TEST(MappedFile, ReadsDropsAndReadsAgain) {
  const TemporaryDirectory directory;
  const std::string content(100'000, 'x');
  const auto file = MappedFile::open(directory.write("a", content));
  ASSERT_EQ(file->bytes().size(), content.size());
  file->drop(file->bytes().subspan(10, 90'000));
  EXPECT_EQ(std::memcmp(file->bytes().data(), content.data(), content.size()), 0);
  EXPECT_TRUE(file->contains(file->bytes()));
  EXPECT_FALSE(file->contains({file->bytes().data() + 1, file->bytes().size()}));
}

TEST(MappedFile, NamesWhatIsWrong) {
  const TemporaryDirectory directory;
  EXPECT_THAT(error_at(directory / "none"), HasSubstr("none; got No such file"));
  EXPECT_THAT(error_at(directory.write("empty", "")), HasSubstr("an empty file"));
  EXPECT_THAT(error_at(directory.path()), HasSubstr("a regular file"));
  EXPECT_THAT(error_at(directory.write("m.safetensors.incomplete", "abc")), HasSubstr("a partial download"));
  const auto pointer =
      directory.write("lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n");
  EXPECT_THAT(error_at(pointer), HasSubstr("Git LFS pointer"));
}

}  // namespace
}  // namespace penstock::tensor
