#!/usr/bin/env python3
"""Writes the MLX folder of a llama-family GGUF whose weights are Q4_0, Q4_1 or Q8_0, bit for bit (no re-quantising).

  gguf_to_mlx.py MODEL.gguf FOLDER [--float32]       needs mlx[cpu], gguf, tokenizers

Q4_0 and Q4_1 are affine 4 bit with groups of 32, Q8_0 is affine 8 bit. GGUF stores the rows of q and k in the order of interleaved rope; the MLX layout wants halves.
With --float32 scales, biases and norms are widened, which changes no value and spares MLX on a CPU its slow 16-bit arithmetic.
"""
import argparse
import json
from pathlib import Path

import mlx.core as mx
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

MODULES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
CONTROL_TOKEN = 3


def mlx_name(name):
    parts = name.split(".")
    prefix = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
    return f"{prefix}{MODULES[parts[-2]]}.{parts[-1]}"


def halves(rows, heads):
    """Undoes the row order of interleaved rope: [heads, dim / 2, 2, columns] to [heads, 2, dim / 2, columns]."""
    return rows.reshape(heads, -1, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def convert_weights(source, heads, kv_heads, wide):
    weights = {}
    for name, array in mx.load(str(source)).items():
        if ".attn_q." in name or ".attn_k." in name:
            array = halves(array, heads if ".attn_q." in name else kv_heads)
        if array.dtype == mx.float32 and mx.all(array.astype(mx.float16).astype(mx.float32) == array).item():
            array = array.astype(mx.float16)
        weights[mlx_name(name)] = array.astype(mx.float32) if wide and array.dtype == mx.float16 else array
    return weights


def quantization(weights):
    """4 bit is the rule; modules of another width are named."""
    rule = {"group_size": 32, "bits": 4, "mode": "affine"}
    for name, scales in weights.items():
        module, _, last = name.rpartition(".")
        if last == "scales":
            bits = weights[f"{module}.weight"].shape[-1] // scales.shape[-1]  # 32-bit words of a group of 32 values
            if bits != rule["bits"]:
                rule[module] = {"group_size": 32, "bits": bits, "mode": "affine"}
    return rule


def model_config(field, weights):
    heads, hidden = field("llama.attention.head_count"), field("llama.embedding_length")
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": hidden,
        "intermediate_size": field("llama.feed_forward_length"), "num_hidden_layers": field("llama.block_count"),
        "num_attention_heads": heads, "num_key_value_heads": field("llama.attention.head_count_kv"), "head_dim": hidden // heads,
        "max_position_embeddings": field("llama.context_length"), "rope_theta": field("llama.rope.freq_base"), "rope_scaling": None,
        "rms_norm_eps": float(f"{field('llama.attention.layer_norm_rms_epsilon'):.6g}"), "vocab_size": field("llama.vocab_size"),
        "tie_word_embeddings": "lm_head.weight" not in weights, "attention_bias": False, "mlp_bias": False,
        "bos_token_id": field("tokenizer.ggml.bos_token_id"), "eos_token_id": field("tokenizer.ggml.eos_token_id"),
        "torch_dtype": "float32" if weights["model.norm.weight"].dtype == mx.float32 else "float16",
        "quantization": quantization(weights), "quantization_config": quantization(weights),
    }


def write_tokenizer(field, folder):
    if field("tokenizer.ggml.pre") != "smollm":
        raise SystemExit(f"[gguf_to_mlx] expected the pre-tokenizer smollm; got {field('tokenizer.ggml.pre')}")
    tokens, kinds = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    control = [i for i, kind in enumerate(kinds) if kind == CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(tokens[i], special=True, normalized=False) for i in control])
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {f"{role}_token": tokens[field(f"tokenizer.ggml.{role_key}_token_id")]
             for role, role_key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))}
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    config = {
        **named, "tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False, "clean_up_tokenization_spaces": False,
        "model_max_length": field("llama.context_length"), "chat_template": field("tokenizer.chat_template"),
        "added_tokens_decoder": {str(i): {"content": tokens[i], **flags} for i in control},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--float32", action="store_true")
    options = parser.parse_args()
    fields = GGUFReader(str(options.source)).fields
    field = lambda name: fields[name].contents()  # noqa: E731
    weights = convert_weights(options.source, field("llama.attention.head_count"), field("llama.attention.head_count_kv"), options.float32)
    options.folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(options.folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (options.folder / "config.json").write_text(json.dumps(model_config(field, weights), indent=1) + "\n")
    write_tokenizer(field, options.folder)


if __name__ == "__main__":
    main()
