"""The fixtures: each recipe gives a config.json and the list of checkpoint tensors with the rule that fills them."""
import math

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 96,
    "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 3,
    "head_dim": 16, "max_position_embeddings": 2048, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "rope_scaling": None, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False,
    "vocab_size": 104, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32",
}
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 128}
MISTRAL = {
    **LLAMA, "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 160, "intermediate_size": 224,
    "num_hidden_layers": 2, "num_attention_heads": 9, "head_dim": 32, "sliding_window": 48, "vocab_size": 120,
    "torch_dtype": "bfloat16",
}
for absent in ("attention_bias", "mlp_bias"):
    del MISTRAL[absent]
SMOLLM2 = {
    **LLAMA, "hidden_size": 144, "intermediate_size": 176, "num_attention_heads": 9, "rope_theta": 100000.0,
    "tie_word_embeddings": True, "vocab_size": 136, "torch_dtype": "float16",
}
del SMOLLM2["head_dim"]
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 96,
    "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 3,
    "max_position_embeddings": 2048, "max_window_layers": 3, "use_sliding_window": False, "sliding_window": 48,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "rope_scaling": None, "tie_word_embeddings": True,
    "vocab_size": 100, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16",
}
QWEN3 = {
    **QWEN2, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 160, "intermediate_size": 224,
    "num_hidden_layers": 2, "head_dim": 48, "attention_bias": False, "tie_word_embeddings": False, "vocab_size": 150,
}
GEMMA3 = {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 96, "intermediate_size": 224, "num_hidden_layers": 5, "num_attention_heads": 6,
    "num_key_value_heads": 3, "head_dim": 32, "query_pre_attn_scalar": 24, "sliding_window": 48,
    "sliding_window_pattern": 3, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "rope_scaling": None,
    "attention_bias": False, "attn_logit_softcapping": None, "final_logit_softcapping": None, "rms_norm_eps": 1e-06,
    "max_position_embeddings": 2048, "tie_word_embeddings": True, "vocab_size": 110, "bos_token_id": 2,
    "eos_token_id": 1, "torch_dtype": "float32",
}
Q4_32 = {"group_size": 32, "bits": 4}
Q4_64 = {"group_size": 64, "bits": 4}
MIXED = {
    **Q4_32, "mode": "affine", "model.embed_tokens": {"group_size": 32, "bits": 8}, "lm_head": {"group_size": 64, "bits": 6},
    "model.layers.0.mlp.down_proj": {"group_size": 64, "bits": 5}, "model.layers.0.self_attn.q_proj": False,
    "model.layers.0.self_attn.o_proj": {"group_size": 32, "bits": 4, "mode": "mxfp4"},
    "model.layers.1.self_attn.v_proj": {"group_size": 32, "bits": 8}, "model.layers.1.mlp.gate_proj": {"group_size": 32, "bits": 3},
}
WIDE = {"hidden_size": 192, "intermediate_size": 320}


def quantized(config, quantization, dtype="bfloat16", **changes):
    return {**config, "torch_dtype": dtype, **changes, "quantization": quantization}


RECIPES = {
    "llama": LLAMA,
    "llama-q4": quantized(LLAMA, Q4_32),
    "llama-bias": {**LLAMA, "attention_bias": True, "mlp_bias": True, "head_dim": 32, "rope_scaling": LLAMA3_ROPE,
                   "num_hidden_layers": 2, "torch_dtype": "float16"},
    "llama-mixed": quantized(LLAMA, MIXED, num_hidden_layers=2, head_dim=32, **WIDE),
    "mistral": MISTRAL,
    "mistral-q4": quantized(MISTRAL, Q4_64, num_attention_heads=6, head_dim=64, **WIDE),
    "smollm2": SMOLLM2,
    "smollm2-q4": quantized(SMOLLM2, {**Q4_32, "model.embed_tokens": {"group_size": 32, "bits": 8}}, "float16",
                            hidden_size=288, intermediate_size=352),
    "qwen2": QWEN2,
    "qwen2-q4": quantized(QWEN2, Q4_64, tie_word_embeddings=False, **WIDE),
    "qwen3": QWEN3,
    "qwen3-q4": quantized(QWEN3, Q4_32, num_attention_heads=9, head_dim=32, tie_word_embeddings=True),
    "gemma3": GEMMA3,
    "gemma3-q4": quantized(GEMMA3, Q4_32),
    "llama-mxfp4": quantized(LLAMA, {"group_size": 32, "bits": 4, "mode": "mxfp4"}, num_hidden_layers=2),
    "llama-mxfp8": quantized(LLAMA, {"group_size": 32, "bits": 8, "mode": "mxfp8"}, num_hidden_layers=2),
    "llama-nvfp4": quantized(LLAMA, {"group_size": 16, "bits": 4, "mode": "nvfp4"}, num_hidden_layers=2),
    "llama-g128": quantized(LLAMA, {"group_size": 128, "bits": 4}, "float16", num_hidden_layers=1, hidden_size=256, intermediate_size=384,
                            num_attention_heads=4, num_key_value_heads=2, head_dim=64),
    **{f"llama-affine{bits}": quantized(LLAMA, {"group_size": 32, "bits": bits}, num_hidden_layers=2)
       for bits in (2, 3, 5, 6, 8)},
}
FLOAT_NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


class TensorList:
    """Collects the tensors of one checkpoint, quantised as the config says."""

    def __init__(self, config):
        self.config, self.dtype, self.entries = config, FLOAT_NAMES[config["torch_dtype"]], []

    def add(self, name, shape, dtype, fill):
        self.entries.append({"name": name, "shape": shape, "dtype": dtype, "fill": fill})

    def vector(self, name, size, centre, span):
        self.add(name, [size], self.dtype, {"kind": "uniform", "centre": centre, "span": span})

    def matrix(self, module, rows, columns, gain):
        """A linear or embedding weight whose values have a spread of about gain / sqrt(columns)."""
        exponent = math.floor(math.log2(gain * math.sqrt(3 / columns)) + 0.5)
        form = quantization_of(self.config, module)
        if not form:
            self.add(f"{module}.weight", [rows, columns], self.dtype, {"kind": "uniform", "centre": 0.0, "span": 2.0**exponent})
            return
        mode, bits, group = form.get("mode", "affine"), form["bits"], form["group_size"]
        mask = 0xBFBFBFBF if mode == "mxfp8" else 0xFFFFFFFF  # keeps e4m3 codes small and never NaN
        self.add(f"{module}.weight", [rows, columns * bits // 32], "U32", {"kind": "bits", "mask": mask})
        groups = [rows, columns // group]
        if mode == "affine":
            scale = 2.0 ** (exponent + 1 - bits)
            self.add(f"{module}.scales", groups, self.dtype, {"kind": "uniform", "centre": scale, "span": scale / 4})
            self.add(f"{module}.biases", groups, self.dtype,
                     {"kind": "uniform", "centre": -(2.0**exponent), "span": 2.0 ** (exponent - 2)})
        else:
            first, count = {"mxfp4": (124 + exponent, 2), "mxfp8": (126 + exponent, 2), "nvfp4": (8 * (4 + exponent), 16)}[mode]
            self.add(f"{module}.scales", groups, "U8", {"kind": "bytes", "first": first, "count": count})

    def linear(self, module, rows, columns, gain=1.0, bias=False):
        self.matrix(module, rows, columns, gain)
        if bias:
            self.vector(f"{module}.bias", rows, 0.0, 0.5)


def quantization_of(config, module):
    quantization = config.get("quantization") or {}
    return quantization.get(module, quantization if quantization else None)


def add_layer(tensors, config, prefix):
    hidden, ffn, family = config["hidden_size"], config["intermediate_size"], config["model_type"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    gemma, bias = family == "gemma3_text", config.get("attention_bias", False)
    norm_centre = 0.0 if gemma else 1.0
    norms = ["input_layernorm", "post_attention_layernorm"]
    for norm in norms + (["pre_feedforward_layernorm", "post_feedforward_layernorm"] if gemma else []):
        tensors.vector(f"{prefix}.{norm}.weight", hidden, norm_centre, 0.25)
    attention = f"{prefix}.self_attn"
    tensors.linear(f"{attention}.q_proj", heads * head_dim, hidden, 1.5, bias or family == "qwen2")
    tensors.linear(f"{attention}.k_proj", kv_heads * head_dim, hidden, 1.5, bias or family == "qwen2")
    tensors.linear(f"{attention}.v_proj", kv_heads * head_dim, hidden, 1.5, bias or family == "qwen2")
    tensors.linear(f"{attention}.o_proj", hidden, heads * head_dim, 1.0, bias)
    if family in ("qwen3", "gemma3_text"):
        for norm in ("q_norm", "k_norm"):
            tensors.vector(f"{attention}.{norm}.weight", head_dim, norm_centre + 0.5, 0.25)
    for name, rows, columns in (("gate_proj", ffn, hidden), ("up_proj", ffn, hidden), ("down_proj", hidden, ffn)):
        tensors.linear(f"{prefix}.mlp.{name}", rows, columns, 1.0, config.get("mlp_bias", False))


def tensor_list(config):
    """Every tensor of the checkpoint that belongs to a config.json, in MLX naming."""
    tensors = TensorList(config)
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    tensors.matrix("model.embed_tokens", vocab, hidden, 1.0)
    for layer in range(config["num_hidden_layers"]):
        add_layer(tensors, config, f"model.layers.{layer}")
    tensors.vector("model.norm.weight", hidden, 0.0 if config["model_type"] == "gemma3_text" else 1.0, 0.25)
    if not config["tie_word_embeddings"]:
        tensors.matrix("lm_head", vocab, hidden, 1.0)
    return tensors.entries
