// GGUF: header, metadata, tensors; then the config, the plan, the bound weights and the tokenizer that a file
// amounts to. Everything is accepted whole or refused with a base::Error.
#include <span>

#include "base/hash.h"
#include "fuzz/scratch_file.h"
#include "fuzz/target.h"
#include "fuzz/use_model.h"
#include "models/gguf.h"
#include "models/model_files.h"
#include "pool/model_text.h"
#include "tensor/checkpoint.h"
#include "unit/tensor/gguf_bytes.h"

namespace penstock::fuzz {
namespace {

using tensor::Gguf;
using tensor::GgufBytes;

constexpr uint32_t kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ8_0 = 8, kU32 = 4;

/// One layer, eight wide, every matrix F32.
std::string model(const std::string& arch) {
  GgufBytes head;
  head.text("general.architecture", arch).u32(arch + ".embedding_length", 8).u32(arch + ".block_count", 1);
  head.u32(arch + ".feed_forward_length", 8).u32(arch + ".attention.head_count", 2);
  head.u32(arch + ".attention.head_count_kv", 1).u32(arch + ".context_length", 64);
  head.u32(arch + ".attention.sliding_window", 16).u32(arch + ".attention.layer_norm_rms_epsilon", 1);
  head.text("tokenizer.ggml.model", arch == "llama" ? "llama" : "gpt2").text("tokenizer.ggml.pre", "qwen2");
  head.text("tokenizer.chat_template", "{{ messages[0].content }}<e>");
  head.texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<s>", "<e>"}).texts("tokenizer.ggml.merges", {"a b"});
  head.array("tokenizer.ggml.token_type", 5, 5);
  std::string types;
  for (const int32_t type : {1, 1, 1, 3, 3}) types.append(reinterpret_cast<const char*>(&type), sizeof type);
  head.raw(types).array("tokenizer.ggml.scores", 6, 5).raw(std::string(20, '\0'));
  head.u32("tokenizer.ggml.bos_token_id", 3).u32("tokenizer.ggml.eos_token_id", 4);
  head.flag("tokenizer.ggml.add_bos_token", true);
  const bool is_gemma = arch == "gemma3", has_norms = is_gemma || arch == "qwen3";
  uint64_t offset = 0;
  const auto add = [&](const std::string& name, const std::vector<uint64_t>& shape) {
    head.tensor(name, shape, kF32, offset);
    uint64_t bytes = 4;
    for (const uint64_t n : shape) bytes *= n;
    offset += (bytes + 31) / 32 * 32;
  };
  add("token_embd.weight", {8, 5});
  for (const char* name : {"attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
    add(std::string("blk.0.") + name + ".weight", {8, 8});
  for (const char* name : {"attn_k", "attn_v"}) add(std::string("blk.0.") + name + ".weight", {8, 4});
  for (const char* name : {"attn_norm", "ffn_norm"}) add(std::string("blk.0.") + name + ".weight", {8});
  if (is_gemma)
    for (const char* name : {"post_attention_norm", "post_ffw_norm"})
      add(std::string("blk.0.") + name + ".weight", {8});
  if (has_norms)
    for (const char* name : {"attn_q_norm", "attn_k_norm"})
      add(std::string("blk.0.") + name + ".weight", {4});
  add("output_norm.weight", {8});
  return head.finish(offset);
}

uint64_t read_all(const Gguf& gguf, std::string_view file) {
  uint64_t sum = 0;
  for (const tensor::StoredTensor& tensor : gguf.tensors()) {
    const auto* begin = reinterpret_cast<const char*>(tensor.bytes.data());
    expect(tensor.bytes.empty() ||
               (begin >= file.data() && begin + tensor.bytes.size() <= file.data() + file.size()),
           "a tensor outside the file");
    sum += base::fnv1a({begin, tensor.bytes.size()});
  }
  for (const auto& [key, value] : gguf.metadata()) {
    if (const auto* text = std::get_if<std::string_view>(&value)) sum += base::fnv1a(*text);
    if (const auto* texts = std::get_if<std::vector<std::string_view>>(&value))
      for (const std::string_view text : *texts) sum += base::fnv1a(text);
  }
  return sum;
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> out = {GgufBytes()
                                      .text("general.architecture", "llama")
                                      .u32("general.alignment", 64)
                                      .nested("n", 3)
                                      .array("i", 1, 2)
                                      .raw("\1\2")
                                      .tensor("a.weight", {32, 2}, kQ4_0, 0)
                                      .tensor("b", {32, 1, 1, 1}, kQ8_0, 64)
                                      .tensor("c", {4}, kF16, 128)
                                      .finish(192),
                                  GgufBytes(2).u32("split.count", 1).tensor("a", {}, kF32, 0).finish(4)};
  for (const char* arch : {"llama", "qwen2", "qwen3", "gemma3"}) out.push_back(model(arch));
  return out;
}

std::vector<std::string> words() {
  return {"general.alignment",
          "split.count",
          "blk.0.",
          "output.weight",
          "rope_freqs.weight",
          ".rope.scaling.type",
          ".attention.key_length",
          "linear",
          "llama3",
          "yarn",
          "llama.rope.dimension_count",
          "gemma3",
          "qwen3",
          "llama.rope.freq_base",
          "tokenizer.ggml.unknown_token_id",
          "tokenizer.ggml.add_space_prefix"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const fuzz::Exact input(data, size);
  const std::string_view file = input.text();
  fuzz::refusable([&] {
    const auto gguf = tensor::Gguf::parse(std::as_bytes(std::span(file)), "m");
    fuzz::read_all(gguf, file);
    fuzz::refusable([&] { models::gguf_config(gguf); });
    fuzz::refusable([&] { fuzz::use_text(pool::read_model_text(gguf)); });
    static fuzz::ScratchFile scratch(".gguf");
    scratch.write(file);
    fuzz::use_weights(models::open_model(scratch.path()));
  });
  return 0;
}
