// GGUF files: lossless where MLX has the format, otherwise dense and still the same values.
#include <gmock/gmock.h>

#include "convert/convert.h"
#include "text/tokenizer.h"
#include "unit/convert/tiny_model.h"
#include "unit/tensor/gguf_bytes.h"
#include "unit/tensor/temporary_directory.h"

namespace penstock::convert {
namespace {

using tensor::TemporaryDirectory;

struct TensorLine {
  std::string name;
  std::vector<uint64_t> dimensions;  // fastest first
  uint32_t type;
};

constexpr uint32_t kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ5_0 = 6, kQ5_1 = 7, kQ8_0 = 8, kQ3_K = 11,
                   kQ4_K = 12, kQ5_K = 13, kQ6_K = 14;

uint64_t bytes_of(const TensorLine& line) {
  const tensor::GgmlType* type = tensor::find_ggml_type(line.type);
  uint64_t elements = 1;
  for (const uint64_t n : line.dimensions) elements *= n;
  return elements / static_cast<uint64_t>(type->block_elements) * static_cast<uint64_t>(type->block_bytes);
}

/// One layer, 256 wide, a different format for every matrix.
std::vector<TensorLine> lines(bool bias) {
  std::vector<TensorLine> out = {{"token_embd.weight", {256, 12}, kQ8_0},
                                 {"blk.0.attn_q.weight", {256, 256}, kQ4_K},
                                 {"blk.0.attn_k.weight", {256, 128}, kQ5_0},
                                 {"blk.0.attn_v.weight", {256, 128}, kQ6_K},
                                 {"blk.0.attn_output.weight", {256, 256}, kQ5_K},
                                 {"blk.0.ffn_gate.weight", {256, 256}, kQ4_1},
                                 {"blk.0.ffn_up.weight", {256, 256}, kQ5_1},
                                 {"blk.0.ffn_down.weight", {256, 256}, kQ4_0},
                                 {"output.weight", {256, 12}, kQ3_K},
                                 {"blk.0.attn_norm.weight", {256}, kF32},
                                 {"blk.0.ffn_norm.weight", {256}, kF32},
                                 {"output_norm.weight", {256}, kF32}};
  if (!bias) return out;
  for (const auto& [name, width] : {std::pair{"q", 256}, {"k", 128}, {"v", 128}})
    out.push_back({std::string("blk.0.attn_") + name + ".bias", {static_cast<uint64_t>(width)}, kF32});
  out[6].type = kF16;
  return out;
}

/// Bytes under this mask are finite numbers in every format.
void fill(std::string& file, size_t from) {
  for (size_t i = from; i < file.size(); ++i) file[i] = static_cast<char>(base::splitmix64(i) & 0x3b);
}

std::filesystem::path write_gguf(const TemporaryDirectory& folder, const std::string& arch) {
  tensor::GgufBytes head;
  head.text("general.architecture", arch).u32(arch + ".embedding_length", 256).u32(arch + ".block_count", 1);
  head.u32(arch + ".feed_forward_length", 256).u32(arch + ".attention.head_count", 4);
  head.u32(arch + ".attention.head_count_kv", 2).u32(arch + ".context_length", 64);
  head.u32(arch + ".attention.layer_norm_rms_epsilon", 1).text("tokenizer.ggml.model", "gpt2");
  head.text("tokenizer.ggml.pre", "gpt-2").text("tokenizer.chat_template", "{{ messages[0].content }}<e>");
  head.texts("tokenizer.ggml.tokens", {"a", "b", "c", "ab", "abc", "d", "e", "f", "g", "h", "<s>", "<e>"});
  head.texts("tokenizer.ggml.merges", {"a b", "ab c"});
  head.array("tokenizer.ggml.token_type", 4, 12);
  std::string types;
  for (const uint32_t type : {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3})
    types.append(reinterpret_cast<const char*>(&type), sizeof type);
  head.raw(types).u32("tokenizer.ggml.bos_token_id", 10).u32("tokenizer.ggml.eos_token_id", 11);
  head.flag("tokenizer.ggml.add_bos_token", true);
  uint64_t offset = 0;
  for (const TensorLine& line : lines(arch == "qwen2")) {
    head.tensor(line.name, line.dimensions, line.type, offset);
    offset += (bytes_of(line) + 31) / 32 * 32;
  }
  std::string file = head.finish(offset);
  fill(file, file.size() - offset);
  return folder.write(arch + ".gguf", file);
}

std::string type_of(const models::ModelFiles& files, const std::string& name) {
  const tensor::StoredTensor* found = files.checkpoint->find(name);
  return found == nullptr ? "none" : found->type;
}

class Gguf : public testing::TestWithParam<std::string> {};

TEST_P(Gguf, KeepsEveryValue) {
  const TemporaryDirectory folder;
  const models::ModelFiles source = models::open_model(write_gguf(folder, GetParam()));
  const Summary summary = convert(source, folder / "made", {});
  const models::ModelFiles made = models::open_model(folder / "made");
  expect_same_values(source, made);
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(type_of(made, "model.embed_tokens.scales"), "F16");
  EXPECT_EQ(type_of(made, layer + "self_attn.q_proj.scales"), "F32");  // products of two small numbers
  EXPECT_EQ(type_of(made, layer + "self_attn.v_proj.scales"), "none");
  EXPECT_EQ(type_of(made, layer + "self_attn.v_proj.weight"), "F32");  // q6_K has groups of 16
  EXPECT_EQ(type_of(made, layer + "mlp.down_proj.scales"), "F16");
  const base::Json& rule = made.config["quantization"];
  EXPECT_EQ(rule[layer + "self_attn.o_proj"]["bits"], 5);
  EXPECT_EQ(rule["model.embed_tokens"]["bits"], 8);
  EXPECT_FALSE(rule.contains("lm_head"));
  for (const Tally& tally : summary.tallies)
    EXPECT_TRUE(tally.effect == Effect::kLossless || tally.effect == Effect::kUnchanged) << tally.from;
}

TEST_P(Gguf, QuantisingKeepsCodesThatAreAsWanted) {
  const TemporaryDirectory folder;
  const models::ModelFiles source = models::open_model(write_gguf(folder, GetParam()));
  Options options;
  options.wish.format = quant::Params{"affine", 32, 4};
  const Summary summary = convert(source, folder / "made", options);
  int64_t exact = 0, anew = 0;
  for (const Tally& tally : summary.tallies) {
    const bool codes = tally.to == "affine 4-bit group 32";
    if (codes && tally.effect == Effect::kLossless) exact += tally.count;
    if (codes && tally.effect != Effect::kLossless) anew += tally.count;
  }
  EXPECT_EQ(exact, 3);  // q4_K, q4_1, q4_0
  EXPECT_EQ(anew, 6);
  EXPECT_EQ(models::open_model(folder / "made").config["quantization"].size(), 3u);  // no overrides
}

TEST_P(Gguf, DequantisedItIsDenseAndInFloat32StillTheSame) {
  const TemporaryDirectory folder;
  const models::ModelFiles source = models::open_model(write_gguf(folder, GetParam()));
  Options options;
  options.wish.dequantize = true;
  convert(source, folder / "half", options);
  EXPECT_EQ(type_of(models::open_model(folder / "half"), "model.embed_tokens.weight"), "F16");
  options.wish.dtype = tensor::DType::kF32;
  convert(source, folder / "made", options);
  const models::ModelFiles made = models::open_model(folder / "made");
  EXPECT_FALSE(made.config.contains("quantization"));
  EXPECT_EQ(type_of(made, "model.embed_tokens.weight"), "F32");
  expect_same_values(source, made);
}

TEST_P(Gguf, TheFolderHasAConfigATokenizerAndStopIds) {
  const TemporaryDirectory folder;
  const auto path = write_gguf(folder, GetParam());
  convert(models::open_model(path), folder / "made", {});
  const models::ModelFiles made = models::open_model(folder / "made");
  EXPECT_EQ(made.config["architectures"][0], GetParam() == "llama" ? "LlamaForCausalLM" : "Qwen2ForCausalLM");
  EXPECT_EQ(made.config["tie_word_embeddings"], false);
  EXPECT_EQ(made.config["eos_token_id"], 11);
  const auto parse = [&](const char* name) { return base::Json::parse(read_bytes(folder / "made" / name)); };
  EXPECT_EQ(parse("generation_config.json")["eos_token_id"], base::Json::array({11}));
  EXPECT_EQ(parse("tokenizer_config.json")["bos_token"], "<s>");
  EXPECT_EQ(parse("tokenizer_config.json")["chat_template"], "{{ messages[0].content }}<e>");
  const auto tokenizer = text::Tokenizer::from_json(read_bytes(folder / "made" / "tokenizer.json"),
                                                    read_bytes(folder / "made" / "tokenizer_config.json"));
  EXPECT_EQ(tokenizer.encode("abcd<e>", true), (std::vector<int32_t>{10, 4, 5, 11}));
}

INSTANTIATE_TEST_SUITE_P(Architectures, Gguf, testing::Values("llama", "qwen2"));

}  // namespace
}  // namespace penstock::convert
