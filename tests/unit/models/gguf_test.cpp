#include "models/gguf.h"

#include <span>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/tensor/gguf_bytes.h"

namespace penstock::models {
namespace {

TEST(GgufNames, EveryNameOfADecoderHasASpelling) {
  EXPECT_EQ(gguf_tensor_name("model.embed_tokens.weight", false), "token_embd.weight");
  EXPECT_EQ(gguf_tensor_name("lm_head.weight", false), "output.weight");
  EXPECT_EQ(gguf_tensor_name("model.norm.weight", false), "output_norm.weight");
  EXPECT_EQ(gguf_tensor_name("model.layers.11.self_attn.q_proj.bias", false), "blk.11.attn_q.bias");
  EXPECT_EQ(gguf_tensor_name("model.layers.0.mlp.down_proj.weight", false), "blk.0.ffn_down.weight");
}

TEST(GgufNames, TheNormAfterAttentionDependsOnTheBlock) {
  const std::string name = "model.layers.2.post_attention_layernorm.weight";
  EXPECT_EQ(gguf_tensor_name(name, false), "blk.2.ffn_norm.weight");
  EXPECT_EQ(gguf_tensor_name(name, true), "blk.2.post_attention_norm.weight");
  EXPECT_EQ(gguf_tensor_name("model.layers.2.pre_feedforward_layernorm.weight", true),
            "blk.2.ffn_norm.weight");
}

TEST(GgufNames, AnUnknownNameIsADefect) {
  EXPECT_THROW(gguf_tensor_name("model.layers.0.mixer.weight", false), base::Error);
}

/// Metadata of a llama whose heads are as given.
std::string llama(uint32_t heads) {
  return tensor::GgufBytes()
      .text("general.architecture", "llama")
      .u32("llama.embedding_length", 32)
      .u32("llama.block_count", 1)
      .u32("llama.feed_forward_length", 32)
      .u32("llama.attention.head_count", heads)
      .u32("llama.context_length", 64)
      .u32("llama.attention.layer_norm_rms_epsilon", 1)
      .texts("tokenizer.ggml.tokens", {"a"})
      .finish();
}

TEST(GgufConfig, NoHeadsAreDamageAndNoDivisor) {
  const auto config = [](const std::string& bytes) {
    return gguf_config(tensor::Gguf::parse(std::as_bytes(std::span(bytes)), "m"));
  };
  EXPECT_EQ(config(llama(4))["head_dim"], 8);
  try {
    config(llama(0));
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kCorrupt);
  }
}

}  // namespace
}  // namespace penstock::models
