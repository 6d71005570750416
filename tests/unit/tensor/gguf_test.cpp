#include "tensor/gguf.h"

#include <gmock/gmock.h>

#include "tensor/mapped_file.h"
#include "unit/tensor/gguf_bytes.h"
#include "unit/tensor/temporary_directory.h"

namespace penstock::tensor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_in(const std::string& file) {
  return error_of([&] { Gguf::parse(std::as_bytes(std::span(file)), "m.gguf"); });
}

TEST(Gguf, ReadsWhatTheReferenceWrites) {
  const auto file =
      MappedFile::open(std::string(PENSTOCK_SOURCE_DIR) + "/tests/unit/tensor/goldens/tiny.gguf");
  const Gguf gguf = Gguf::parse(file->bytes(), "tiny.gguf");
  EXPECT_EQ(gguf.text("general.architecture"), "llama");
  EXPECT_EQ(gguf.integer("t.u8"), 200);
  EXPECT_EQ(gguf.integer("t.i8"), -100);
  EXPECT_EQ(gguf.integer("t.u16"), 60000);
  EXPECT_EQ(gguf.integer("t.i16"), -30000);
  EXPECT_EQ(gguf.integer("t.u32"), 4000000000);
  EXPECT_EQ(gguf.integer("t.i32"), -2000000000);
  EXPECT_EQ(gguf.integer("t.u64"), int64_t{1} << 40);
  EXPECT_EQ(gguf.integer("t.i64"), -(int64_t{1} << 40));
  EXPECT_EQ(gguf.number("t.f32"), 0.25);
  EXPECT_EQ(gguf.number("t.f64"), 0.1);
  EXPECT_EQ(gguf.number("t.u8"), 200.0);
  EXPECT_TRUE(gguf.boolean("t.bool"));
  EXPECT_EQ(gguf.text("t.text"), "caf\xc3\xa9");
  EXPECT_THAT(gguf.texts("t.texts"), ElementsAre("a", "", "bc"));
  EXPECT_THAT(gguf.integers("t.integers"), ElementsAre(3, -4, 5));
  EXPECT_THAT(gguf.numbers("t.numbers"), ElementsAre(0.5f, -1.5f));
  EXPECT_THAT(gguf.integers("t.bools"), ElementsAre(1, 0));
  ASSERT_EQ(gguf.tensors().size(), 3u);
  const StoredTensor& dense = gguf.tensors()[0];
  EXPECT_EQ(dense.shape, (Shape{2, 3}));
  EXPECT_THAT(to_f32({*dense.dtype, dense.shape, dense.bytes}), ElementsAre(0, 1, 2, 3, 4, 5));
  const StoredTensor& half = gguf.tensors()[1];
  EXPECT_THAT(to_f32({*half.dtype, half.shape, half.bytes}), ElementsAre(0, .25, .5, .75, 1, 1.25));
  const StoredTensor& blocks = gguf.tensors()[2];
  EXPECT_EQ(blocks.type, "Q4_K");
  EXPECT_EQ(blocks.shape, (Shape{2, 256}));
  EXPECT_EQ(blocks.bytes.size(), 288u);
  EXPECT_FALSE(blocks.dtype);
}

TEST(Gguf, GettersNameTheKey) {
  const std::string file = GgufBytes().text("a.text", "x").u32("a.number", 3).finish();
  const Gguf gguf = Gguf::parse(std::as_bytes(std::span(file)), "m.gguf");
  EXPECT_THAT(error_of([&] { gguf.integer("a.none"); }), HasSubstr("a.none in m.gguf; got none"));
  EXPECT_THAT(error_of([&] { gguf.integer("a.text"); }), HasSubstr("an integer for the key a.text"));
  EXPECT_THAT(error_of([&] { gguf.text("a.number"); }), HasSubstr("a text for the key a.number"));
  EXPECT_THAT(error_of([&] { gguf.texts("a.text"); }), HasSubstr("texts for the key a.text"));
  EXPECT_EQ(gguf.integer_or("a.none", 7), 7);
  EXPECT_EQ(gguf.integer_or("a.number", 7), 3);
  EXPECT_THAT(error_of([&] { gguf.integer_or("a.text", 7); }), HasSubstr("a.text"));
}

TEST(Gguf, VersionsAndByteOrders) {
  EXPECT_EQ(error_in(GgufBytes(2).finish()), "");
  EXPECT_EQ(error_in(GgufBytes(3).finish()), "");
  EXPECT_THAT(error_in(GgufBytes(1).finish()), HasSubstr("got version 1"));
  EXPECT_THAT(error_in(GgufBytes(4).finish()), HasSubstr("got version 4"));
  EXPECT_THAT(error_in(GgufBytes(0x03000000).finish()), HasSubstr("a big-endian one"));
  EXPECT_THAT(error_in("GGML0000000000"), HasSubstr("the letters GGUF"));
  EXPECT_THAT(error_in("GGUF"), HasSubstr("the letters GGUF"));
}

TEST(Gguf, SplitFilesAreRefused) {
  EXPECT_EQ(error_in(GgufBytes().u32("split.count", 1).finish()), "");
  EXPECT_THAT(error_in(GgufBytes().u32("split.count", 3).finish()), HasSubstr("split.count"));
}

TEST(Gguf, HostileMetadata) {
  EXPECT_THAT(error_in(GgufBytes().pairs(~0ull).finish()), HasSubstr("bytes are missing"));
  EXPECT_THAT(error_in(GgufBytes().raw_key(~0ull, "k").finish()), HasSubstr("bytes are missing"));
  EXPECT_THAT(error_in(GgufBytes().key("k", 99).finish()), HasSubstr("a known value type for k"));
  EXPECT_THAT(error_in(GgufBytes().u32("k", 1).u32("k", 1).finish()), HasSubstr("two of k"));
  EXPECT_THAT(error_in(GgufBytes().array("k", 4, ~0ull).finish()),
              HasSubstr("an array of 18446744073709551615"));
  EXPECT_THAT(error_in(GgufBytes().array("k", 8, 1000).finish()), HasSubstr("an array of 1000"));
  EXPECT_THAT(error_in(GgufBytes().array("k", 13, 1).finish()), HasSubstr("a known value type"));
  EXPECT_THAT(error_in(GgufBytes().nested("k", 10).finish()), HasSubstr("nested at most 4"));
  EXPECT_EQ(error_in(GgufBytes().nested("k", 3).finish()), "");
}

TEST(Gguf, HostileAlignment) {
  for (const uint32_t bad : {0u, 3u, 1u << 30}) {
    EXPECT_THAT(error_in(GgufBytes().u32("general.alignment", bad).finish()), HasSubstr("general.alignment"))
        << bad;
  }
  EXPECT_THAT(error_in(GgufBytes().text("general.alignment", "x").finish()), HasSubstr("general.alignment"));
  EXPECT_EQ(error_in(GgufBytes().u32("general.alignment", 8).tensor("a", {2}, 0, 0).finish(8)), "");
}

TEST(Gguf, HostileTensors) {
  EXPECT_EQ(error_in(GgufBytes().tensor("a", {32, 2}, 2, 0).finish(36)), "");
  EXPECT_THAT(error_in(GgufBytes().tensor("a", {32, 2}, 2, 0).finish(35)), HasSubstr("36 bytes at 0 for a"));
  EXPECT_THAT(error_in(GgufBytes().tensor("a", {33}, 2, 0).finish(64)), HasSubstr("in blocks of 32"));
  EXPECT_THAT(error_in(GgufBytes().tensor("a", {4}, 77, 0).finish(64)),
              HasSubstr("a known tensor type for a"));
  EXPECT_THAT(error_in(GgufBytes().tensor("a", {1ull << 62, 4}, 0, 0).finish(64)), HasSubstr("fits memory"));
  EXPECT_THAT(error_in(GgufBytes().tensor("a", {~0ull}, 0, 0).finish(64)), HasSubstr("below 2^63"));
  EXPECT_THAT(error_in(GgufBytes().tensor("a", {1, 1, 1, 1, 1}, 0, 0).finish(64)),
              HasSubstr("at most 4 dimensions"));
  EXPECT_THAT(error_in(GgufBytes().tensor("a", {1}, 0, 4).finish(64)), HasSubstr("in steps of 32"));
  EXPECT_THAT(error_in(GgufBytes().tensor("a", {1}, 0, ~0ull - 31).finish(64)),
              HasSubstr("a truncated file"));
  EXPECT_THAT(error_in(GgufBytes().tensor("a", {1}, 0, 64).finish(64)), HasSubstr("a truncated file"));
  EXPECT_THAT(error_in(GgufBytes().tensor("a", {1}, 0, 0).tensor("a", {1}, 0, 32).finish(64)),
              HasSubstr("two of a"));
  EXPECT_THAT(error_in(GgufBytes().tensor("a", {9}, 0, 0).tensor("b", {1}, 0, 32).finish(64)),
              HasSubstr("a over b"));
  EXPECT_THAT(error_in(GgufBytes().tensors(~0ull).finish()), HasSubstr("bytes are missing"));
}

}  // namespace
}  // namespace penstock::tensor
