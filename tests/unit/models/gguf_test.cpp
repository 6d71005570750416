#include "models/gguf.h"

#include <gtest/gtest.h>

#include "base/error.h"

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

}  // namespace
}  // namespace penstock::models
