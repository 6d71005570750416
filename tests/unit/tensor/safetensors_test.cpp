#include "tensor/safetensors.h"

#include <gmock/gmock.h>

#include "unit/tensor/temporary_directory.h"

namespace penstock::tensor {
namespace {

using testing::HasSubstr;

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string file_of(const std::string& header, size_t data_bytes) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
         std::string(data_bytes, '\1');
}

std::string error_in(const std::string& file) {
  return error_of([&] { parse_safetensors(as_bytes(file), "m.safetensors"); });
}

std::string entry(const char* dtype, const char* shape, const char* offsets) {
  return std::string(R"({"dtype":")") + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}";
}

TEST(Safetensors, ReadsWhatItWrites) {
  const TemporaryDirectory directory;
  const float numbers[] = {1, 2, 3, 4, 5, 6};
  const uint16_t halves[] = {0x3c00};
  const std::vector<NamedView> tensors = {{"b", {DType::kF32, {2, 3}, std::as_bytes(std::span(numbers))}},
                                          {"a", {DType::kF16, {}, std::as_bytes(std::span(halves))}},
                                          {"none", {DType::kI64, {0, 4}, {}}}};
  const auto path = directory / "m.safetensors";
  write_safetensors(path, tensors, {{"format", "mlx"}});
  const auto file = MappedFile::open(path);
  const SafetensorsTable table = parse_safetensors(file->bytes(), "m");
  EXPECT_EQ(table.metadata.at("format"), "mlx");
  ASSERT_EQ(table.tensors.size(), 3u);
  EXPECT_EQ(table.tensors[0].name, "b");
  EXPECT_EQ(table.tensors[0].shape, (Shape{2, 3}));
  EXPECT_EQ(to_f32({*table.tensors[0].dtype, table.tensors[0].shape, table.tensors[0].bytes})[4], 5);
  for (const auto& left : std::filesystem::directory_iterator(directory.path())) EXPECT_EQ(left.path(), path);
  EXPECT_THAT(error_of([&] { write_safetensors(directory / "no" / "m", tensors); }), HasSubstr("create"));
}

TEST(Safetensors, TruncatedFilesSayHowMuchIsMissing) {
  const std::string whole = file_of("{\"a\":" + entry("F32", "[4]", "[0,16]") + "}", 16);
  EXPECT_EQ(error_in(whole), "");
  EXPECT_THAT(error_in(whole.substr(0, whole.size() - 5)), HasSubstr("5 bytes are missing"));
  EXPECT_THAT(error_in(whole.substr(0, 20)), HasSubstr("too early"));
  EXPECT_THAT(error_in(whole.substr(0, 7)), HasSubstr("a file of 7 bytes"));
}

TEST(Safetensors, HostileHeaders) {
  EXPECT_THAT(error_in(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)),
              HasSubstr("a header of at most"));
  EXPECT_THAT(error_in(std::string("\x00\x00\x00\x05\x00\x00\x00\x00{}", 10)), HasSubstr("too early"));
  EXPECT_THAT(error_in(file_of("[]", 0)), HasSubstr("a JSON object"));
  EXPECT_THAT(error_in(file_of("{\"a\":", 0)), HasSubstr("a JSON header"));
  EXPECT_THAT(error_in(file_of(std::string(100'000, '['), 0)), HasSubstr("levels"));
  EXPECT_THAT(error_in(file_of(R"({"a":3})", 0)), HasSubstr("an object for a"));
  EXPECT_THAT(error_in(file_of(R"({"a":{}})", 0)), HasSubstr("data_offsets of a"));
  EXPECT_THAT(error_in(file_of(R"({"__metadata__":{"k":1}})", 0)), HasSubstr("metadata k"));
  const std::string a = "\"a\":" + entry("U8", "[1]", "[0,1]");
  EXPECT_THAT(error_in(file_of("{" + a + "," + a + "}", 1)), HasSubstr("two of a"));
  EXPECT_EQ(error_in(file_of("{" + a + "}", 1)), "");
  EXPECT_EQ(error_in(file_of("{\"__metadata__\":null," + a + "}", 1)), "");
}

TEST(Safetensors, HostileEntries) {
  const auto error = [](const char* dtype, const char* shape, const char* offsets, size_t data) {
    return error_in(file_of("{\"a\":" + entry(dtype, shape, offsets) + "}", data));
  };
  EXPECT_THAT(error("F32", "[4294967296,4294967296]", "[0,0]", 0), HasSubstr("fits memory"));
  EXPECT_THAT(error("F32", "[9223372036854775807]", "[0,4]", 4), HasSubstr("fits memory"));
  EXPECT_THAT(error("F32", "[18446744073709551615]", "[0,4]", 4), HasSubstr("below 2^63"));
  EXPECT_THAT(error("F32", "[-1]", "[0,4]", 4), HasSubstr("an unsigned number"));
  EXPECT_THAT(error("F32", "[1.5]", "[0,4]", 4), HasSubstr("an unsigned number"));
  EXPECT_THAT(error("F32", "4", "[0,4]", 4), HasSubstr("a shape"));
  EXPECT_THAT(error("F32", "[2]", "[0,4]", 4), HasSubstr("8 bytes for a"));
  EXPECT_THAT(error("F32", "[1]", "[4,0]", 4), HasSubstr("in order"));
  EXPECT_THAT(error("F32", "[1]", "[0]", 4), HasSubstr("two data_offsets"));
  EXPECT_THAT(error("F32", "[1]", "[0,18446744073709551615]", 4), HasSubstr("bytes are missing"));
  EXPECT_THAT(error("F32", "[1]", "[1,5]", 5), HasSubstr("a hole before a"));
  EXPECT_THAT(error("F32", "[1]", "[0,4]", 5), HasSubstr("1 bytes more"));
}

TEST(Safetensors, OverlapsAndHolesBetweenTensors) {
  const auto two = [](const char* first, const char* second, size_t data) {
    return error_in(
        file_of("{\"a\":" + entry("U8", "[4]", first) + ",\"b\":" + entry("U8", "[4]", second) + "}", data));
  };
  EXPECT_EQ(two("[0,4]", "[4,8]", 8), "");
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "");
  EXPECT_THAT(two("[0,4]", "[3,7]", 7), HasSubstr("an overlap at b"));
  EXPECT_THAT(two("[0,4]", "[0,4]", 4), HasSubstr("an overlap"));
  EXPECT_THAT(two("[0,4]", "[5,9]", 9), HasSubstr("a hole before b"));
}

TEST(Safetensors, AnUnknownDtypeIsListed) {
  const std::string file = file_of("{\"a\":" + entry("F4", "[4]", "[0,2]") + "}", 2);
  const SafetensorsTable table = parse_safetensors(as_bytes(file), "m");
  EXPECT_EQ(table.tensors[0].type, "F4");
  EXPECT_FALSE(table.tensors[0].dtype);
}

}  // namespace
}  // namespace penstock::tensor
