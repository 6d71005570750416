// Dense and quantised MLX directories: what each module becomes, bit for bit.
#include "convert/convert.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "quant/load.h"
#include "quant/quantize.h"
#include "unit/convert/tiny_model.h"
#include "unit/tensor/temporary_directory.h"

namespace penstock::convert {
namespace {

using base::Json;
using quant::Params;
using tensor::DType;
using tensor::TemporaryDirectory;

const std::vector<Params>& all_formats() {
  static const std::vector<Params> kAll = [] {
    std::vector<Params> all = {{"mxfp4", 32, 4}, {"mxfp8", 32, 8}, {"nvfp4", 16, 4}};
    for (const int bits : {2, 3, 4, 5, 6, 8}) {
      for (const int group : {32, 64, 128}) all.push_back({"affine", group, bits});
    }
    return all;
  }();
  return kAll;
}

Options with_format(const Params& params) {
  Options options;
  options.wish.format = params;
  options.threads = 2;
  return options;
}

const tensor::StoredTensor& stored(const models::ModelFiles& files, const std::string& name) {
  const tensor::StoredTensor* found = files.checkpoint->find(name);
  if (found == nullptr) throw std::runtime_error("no tensor " + name);
  return *found;
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// Every matrix of `to` is what quant::quantize makes of the one in `from`; all else is unchanged.
void expect_quantized(const models::ModelFiles& from, const models::ModelFiles& to, const Params& params) {
  for (const auto& spec : from.plan.weights) {
    const std::string name = spec.vector ? spec.name : spec.name + ".weight";
    const tensor::StoredTensor& source = stored(from, name);
    if (spec.vector || spec.cols % params.group_size != 0) {
      EXPECT_TRUE(same_bytes(source.bytes, stored(to, name).bytes)) << name;
      EXPECT_EQ(source.type, stored(to, name).type) << name;
      continue;
    }
    for (const auto& part : quant::quantize({*source.dtype, source.shape, source.bytes}, params, spec.name)) {
      EXPECT_TRUE(same_bytes(part.bytes, stored(to, part.name).bytes)) << part.name;
      EXPECT_EQ(part.dtype, stored(to, part.name).dtype) << part.name;
      EXPECT_EQ(part.shape, stored(to, part.name).shape) << part.name;
    }
  }
}

TEST(Convert, EveryFormatEqualsTheQuantizerModuleByModule) {
  const TemporaryDirectory folder;
  // 96 columns of down_proj are no whole groups of 64 or 128: it stays dense there.
  write_model(folder / "dense", tiny_config({.width = 96}), tiny_tensors({.width = 96}, DType::kBF16));
  const models::ModelFiles source = models::open_model(folder / "dense");
  for (const Params& params : all_formats()) {
    const auto path =
        folder / (params.mode + std::to_string(params.bits) + std::to_string(params.group_size));
    const Summary summary = convert(source, path, with_format(params));
    const models::ModelFiles made = models::open_model(path);
    expect_quantized(source, made, params);
    const Json wanted = {{"group_size", params.group_size}, {"bits", params.bits}, {"mode", params.mode}};
    EXPECT_EQ(made.config["quantization"], wanted);
    EXPECT_EQ(made.config["quantization_config"], wanted);
    EXPECT_EQ(summary.quantization, wanted);
    EXPECT_EQ(read_bytes(path / "tokenizer_config.json"),
              read_bytes(folder / "dense" / "tokenizer_config.json"));
    EXPECT_FALSE(std::filesystem::exists(path / "convert.incomplete"));
  }
}

Params golden_params(const std::string& base) {
  if (base == "quantize.mxfp4") return {"mxfp4", 32, 4};
  if (base == "quantize.mxfp8") return {"mxfp8", 32, 8};
  if (base == "quantize.nvfp4") return {"nvfp4", 16, 4};
  return {"affine", std::stoi(base.substr(base.find('.', 9) + 1)), std::stoi(base.substr(9))};
}

TEST(Convert, AnEmbeddingBecomesTheBitsOfMlx) {
  const auto goldens = tensor::Checkpoint::open(std::string(PENSTOCK_SOURCE_DIR) +
                                                "/tests/unit/quant/goldens/mlx_quantize.safetensors");
  int seen = 0;
  for (const auto& [name, golden] : goldens->tensors()) {
    if (!name.ends_with(".source")) continue;
    const TemporaryDirectory folder;
    const std::string base = name.substr(0, name.size() - 7);
    const Shape shape = {.hidden = golden.shape[1], .width = 32, .layers = 1, .vocab = golden.shape[0]};
    auto tensors = tiny_tensors(shape, *golden.dtype);
    tensors[0].bytes.assign(golden.bytes.begin(), golden.bytes.end());
    write_model(folder / "dense", tiny_config(shape), tensors);
    convert(models::open_model(folder / "dense"), folder / "made", with_format(golden_params(base)));
    const auto made = tensor::Checkpoint::open(folder / "made");
    for (const char* part : {".weight", ".scales", ".biases"}) {
      const tensor::StoredTensor* expected = goldens->find(base + part);
      const tensor::StoredTensor* got = made->find("model.embed_tokens" + std::string(part));
      ASSERT_EQ(expected == nullptr, got == nullptr) << base << part;
      if (expected != nullptr) {
        EXPECT_TRUE(same_bytes(expected->bytes, got->bytes)) << base << part;
      }
    }
    ++seen;
  }
  EXPECT_EQ(seen, 21);
}

TEST(Convert, KeepingChangesNoByteOfAFolder) {
  const TemporaryDirectory folder;
  write_model(folder / "dense", tiny_config({}), tiny_tensors({}, DType::kF16));
  const models::ModelFiles dense = models::open_model(folder / "dense");
  const Summary kept = convert(dense, folder / "kept", {});
  ASSERT_EQ(kept.tallies.size(), 1u);
  EXPECT_EQ(kept.tallies[0].effect, Effect::kUnchanged);
  expect_same_values(dense, models::open_model(folder / "kept"));
  EXPECT_FALSE(models::open_model(folder / "kept").config.contains("quantization"));
  for (const Params& params : {Params{"affine", 64, 3}, Params{"nvfp4", 16, 4}}) {
    const auto made = folder / ("made" + params.mode), again = folder / ("again" + params.mode);
    convert(dense, made, with_format(params));
    convert(models::open_model(made), again, {});
    EXPECT_EQ(read_folder(made), read_folder(again));
  }
}

TEST(Convert, AQuantisedSourceKeepsWhatIsAsWantedAndTheRestIsMadeAnew) {
  const TemporaryDirectory folder;
  write_model(folder / "dense", tiny_config({.width = 96}), tiny_tensors({.width = 96}, DType::kF16));
  convert(models::open_model(folder / "dense"), folder / "g32", with_format({"affine", 32, 4}));
  const models::ModelFiles source = models::open_model(folder / "g32");
  Options options = with_format({"affine", 64, 4});
  int notes = 0;
  options.on_note = [&](const std::string&) { ++notes; };
  const Summary summary = convert(source, folder / "g64", options);
  EXPECT_EQ(notes, 1);
  const models::ModelFiles made = models::open_model(folder / "g64");
  // 96 columns are no whole groups of 64: that module keeps its groups of 32, and the config says so.
  const std::string down = "model.layers.0.mlp.down_proj", up = "model.layers.0.mlp.up_proj";
  EXPECT_EQ(made.config["quantization"][down]["group_size"], 32);
  for (const char* part : {".weight", ".scales", ".biases"})
    EXPECT_TRUE(same_bytes(stored(source, down + part).bytes, stored(made, down + part).bytes));
  // The others are what the quantizer makes of the dequantised values in the type of the scales.
  const quant::Matrix* matrix = nullptr;
  for (size_t i = 0; i < source.weights.size(); ++i) {
    if (source.plan.weights[i].name == up) matrix = &source.weights[i];
  }
  std::vector<std::byte> values(static_cast<size_t>(matrix->rows * matrix->cols) * 2);
  std::vector<float> row(static_cast<size_t>(matrix->cols));
  for (int64_t r = 0; r < matrix->rows; ++r) {
    matrix->format->dequantize(*matrix, r, row);
    tensor::write_f32(row, DType::kF16, values.data() + static_cast<size_t>(r * matrix->cols) * 2);
  }
  for (const auto& part :
       quant::quantize({DType::kF16, {matrix->rows, matrix->cols}, values}, {"affine", 64, 4}, up))
    EXPECT_TRUE(same_bytes(part.bytes, stored(made, part.name).bytes)) << part.name;
  const bool again = std::any_of(summary.tallies.begin(), summary.tallies.end(),
                                 [](const Tally& t) { return t.effect == Effect::kRequantized; });
  EXPECT_TRUE(again);
}

TEST(Convert, AFormatWithoutBiasesLeavesNoneOfTheSource) {
  const TemporaryDirectory folder;
  write_model(folder / "dense", tiny_config({}), tiny_tensors({}, DType::kF16));
  convert(models::open_model(folder / "dense"), folder / "affine", with_format({"affine", 32, 4}));
  const models::ModelFiles source = models::open_model(folder / "affine");
  Options dense;
  dense.wish.dequantize = true;
  for (const auto& [name, options] :
       {std::pair("mxfp4", with_format({"mxfp4", 32, 4})), std::pair("nvfp4", with_format({"nvfp4", 16, 4})),
        std::pair("again", dense)}) {
    convert(source, folder / name, options);
    const models::ModelFiles made = models::open_model(folder / name);
    EXPECT_EQ(made.checkpoint->find("model.embed_tokens.biases"), nullptr) << name;
    EXPECT_EQ(made.checkpoint->find("model.embed_tokens.scales") == nullptr, options.wish.dequantize) << name;
  }
}

TEST(Convert, ADtypeIsGivenToEverythingButCodes) {
  const TemporaryDirectory folder;
  write_model(folder / "dense", tiny_config({}), tiny_tensors({}, DType::kF32));
  Options options = with_format({"affine", 64, 4});
  options.wish.dtype = DType::kBF16;
  convert(models::open_model(folder / "dense"), folder / "made", options);
  const models::ModelFiles made = models::open_model(folder / "made");
  EXPECT_EQ(made.config["torch_dtype"], "bfloat16");
  for (const auto& [name, tensor] : made.checkpoint->tensors()) {
    const bool codes = name.find("norm") == std::string::npos && name.ends_with(".weight");
    EXPECT_EQ(tensor.type, codes ? "U32" : "BF16") << name;
  }
  // Widening the scales of a quantised folder changes no value.
  Options wide;
  wide.wish.dtype = DType::kF32;
  const Summary summary = convert(made, folder / "wide", wide);
  for (const Tally& tally : summary.tallies) EXPECT_EQ(tally.effect, Effect::kLossless) << tally.from;
  EXPECT_EQ(stored(models::open_model(folder / "wide"), "model.embed_tokens.scales").type, "F32");
  expect_same_values(made, models::open_model(folder / "wide"));
}

TEST(Convert, ValuesBeyondFloat16AreRefused) {
  const TemporaryDirectory folder;
  auto tensors = tiny_tensors({}, DType::kF32);
  const float large = 70000;
  std::memcpy(tensors[1].bytes.data(), &large, sizeof large);
  write_model(folder / "dense", tiny_config({}), tensors);
  Options options;
  options.wish.dtype = DType::kF16;
  const auto call = [&] { convert(models::open_model(folder / "dense"), folder / "made", options); };
  EXPECT_THAT(tensor::error_of(call), testing::HasSubstr("bfloat16"));
}

TEST(Convert, LargeModelsGetShardsAndAnIndex) {
  const TemporaryDirectory folder;
  write_model(folder / "dense", tiny_config({}), tiny_tensors({}, DType::kF16));
  const models::ModelFiles source = models::open_model(folder / "dense");
  Options options;
  options.shard_bytes = 300000;
  const Summary summary = convert(source, folder / "made", options);
  ASSERT_GT(summary.files.size(), 2u);
  EXPECT_EQ(summary.files[0].first,
            "model-00001-of-0000" + std::to_string(summary.files.size()) + ".safetensors");
  const Json index = Json::parse(read_bytes(folder / "made" / "model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"].size(), source.checkpoint->tensors().size());
  for (const auto& [name, bytes] : summary.files) {
    EXPECT_EQ(std::filesystem::file_size(folder / "made" / name), bytes);
    EXPECT_LE(bytes, 310000u);
  }
  expect_same_values(source, models::open_model(folder / "made"));
}

TEST(Convert, OtherTowersGoOverAndDeadTensorsDoNot) {
  const TemporaryDirectory folder;
  auto tensors = tiny_tensors({}, DType::kF16);
  for (auto& tensor : tensors) tensor.name = "language_model." + tensor.name;
  tensors.push_back(random_tensor("vision_tower.patch.weight", DType::kF32, {4, 3, 2, 2}));
  tensors.push_back(random_tensor("language_model.lm_head.weight", DType::kF16, {24, 256}));
  tensors.push_back(
      random_tensor("language_model.model.layers.0.self_attn.rotary_emb.inv_freq", DType::kF32, {32}));
  write_model(folder / "dense", tiny_config({}), tensors);
  convert(models::open_model(folder / "dense"), folder / "made", with_format({"affine", 64, 4}));
  const models::ModelFiles made = models::open_model(folder / "made");
  EXPECT_EQ(stored(made, "vision_tower.patch.weight").shape, (tensor::Shape{4, 3, 2, 2}));
  EXPECT_NE(made.checkpoint->find("language_model.model.embed_tokens.scales"), nullptr);
  EXPECT_EQ(made.checkpoint->find("language_model.lm_head.weight"), nullptr);
  EXPECT_EQ(made.checkpoint->find("language_model.model.layers.0.self_attn.rotary_emb.inv_freq"), nullptr);
}

}  // namespace
}  // namespace penstock::convert
