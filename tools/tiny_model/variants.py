"""Changes of a config.json that must be noticed: each gives other logits, the same logits, or a refusal to load.

A change is an RFC 7386 merge patch (null deletes a key).
"""

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}


def change(field, patch, expect="logits", or_error=False):
    """`expect`: "logits" (stored row), "same" (the row of the unchanged config) or "error"; `or_error` allows a refusal."""
    return {"field": field, "patch": patch, "expect": expect, "or_error": or_error}


def rope_changes():
    linear = {"rope_type": "linear", "factor": 4.0}
    return [
        change("rope_theta", {"rope_theta": 500.0}),
        change("rope_scaling.linear", {"rope_scaling": linear}),
        change("rope_scaling.type", {"rope_scaling": {"type": "linear", "factor": 4.0}}),
        change("rope_scaling.llama3", {"rope_scaling": LLAMA3}),
        change("rope_scaling.yarn", {"rope_scaling": YARN}),
        change("rope_scaling.beta_fast", {"rope_scaling": {**YARN, "beta_fast": 2.0, "beta_slow": 0.25}}),
        change("rope_scaling.attention_factor", {"rope_scaling": {**YARN, "attention_factor": 1.5}}, or_error=True),
        change("rope_scaling.mscale", {"rope_scaling": {**YARN, "mscale": 2.0, "mscale_all_dim": 0.5}}, or_error=True),
        change("rope_scaling.rope_type", {"rope_scaling": {"rope_type": "no-such-type", "factor": 4.0}}, "error"),
        change("rope_parameters", {"rope_theta": None, "rope_scaling": None,
                                   "rope_parameters": {**LLAMA3, "rope_theta": 500.0}}),
    ]


def llama3_changes():
    values = {"factor": 2.0, "low_freq_factor": 2.0, "high_freq_factor": 16.0, "original_max_position_embeddings": 32}
    return [change(f"rope_scaling.{field}", {"rope_scaling": {field: value}}) for field, value in values.items()]


def shape_changes(config):
    """Changes that no longer fit the tensors."""
    fields = ["hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "num_hidden_layers"]
    changes = [change(f, {f: config[f] * 2}, "error") for f in fields]
    changes.append(change("num_hidden_layers", {"num_hidden_layers": config["num_hidden_layers"] - 1}, "error"))
    changes.append(change("vocab_size", {"vocab_size": config["vocab_size"] + 8}, "error"))
    if "head_dim" in config:
        changes.append(change("head_dim", {"head_dim": config["head_dim"] * 2}, "error"))
        if config["model_type"] == "llama" and config["head_dim"] * config["num_attention_heads"] == config["hidden_size"]:
            changes.append(change("head_dim", {"head_dim": None}, "same"))
    return changes


def window_changes(config):
    layers = config["num_hidden_layers"]
    mixed = ["full_attention"] * (layers - 1) + ["sliding_attention"]
    on = {"use_sliding_window": True}
    return [
        change("use_sliding_window", {**on, "max_window_layers": 0}, or_error=True),
        change("sliding_window", {**on, "max_window_layers": 0, "sliding_window": 100}, or_error=True),
        change("max_window_layers", {**on, "max_window_layers": 1}, or_error=True),
        change("layer_types", {**on, "layer_types": mixed}, or_error=True),
    ]


def family_changes(config):
    family = config["model_type"]
    if family == "llama":
        rope = llama3_changes() if config["rope_scaling"] else rope_changes()
        return [change(f, {f: not config[f]}, "error") for f in ("attention_bias", "mlp_bias")] + rope
    if family == "mistral":
        return rope_changes() + [change("sliding_window", {"sliding_window": 100}),
                                 change("sliding_window", {"sliding_window": None})]
    if family == "qwen2":
        return rope_changes() + window_changes(config)
    if family == "qwen3":
        return rope_changes() + window_changes(config) + [change("attention_bias", {"attention_bias": True}, "error")]
    if family == "gemma3_text":
        return gemma_changes(config)
    raise ValueError(f"no changes are known for the family {family}")


def gemma_changes(config):
    scaling = {"rope_type": "linear", "factor": 8.0}
    types = ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
    both = {"full_attention": {**scaling, "rope_theta": 500.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 77.0}}
    old_names = {"rope_theta": None, "rope_local_base_freq": None, "rope_scaling": None}
    return [
        change("rope_theta", {"rope_theta": 500.0}),
        change("rope_local_base_freq", {"rope_local_base_freq": 500.0}),
        change("rope_scaling.linear", {"rope_scaling": scaling}),
        change("rope_scaling.rope_type", {"rope_scaling": {**scaling, "rope_type": "no-such-type"}}, "error"),
        change("rope_parameters", {**old_names, "rope_parameters": both}),
        change("query_pre_attn_scalar", {"query_pre_attn_scalar": 64}),
        change("sliding_window", {"sliding_window": 100}),
        change("sliding_window_pattern", {"sliding_window_pattern": 2}),
        change("layer_types", {"layer_types": types}),
        change("final_logit_softcapping", {"final_logit_softcapping": 2.0}, or_error=True),
        change("attention_bias", {"attention_bias": True}, "error"),
    ]


def quantization_changes(config):
    """Only the quantisation is varied on a quantised fixture; the other fields are the dense fixture's work.

    Tensor shapes tell bits and group size too, so a wrong entry shows and is refused.
    """
    base = config["quantization"]
    mode, bits = base.get("mode", "affine"), base["bits"]
    wrong = {"bits": 8 if bits != 8 else 4, "group_size": 64 if base["group_size"] != 64 else 32,
             "mode": "mxfp4" if mode == "affine" else "affine"}
    changes = [
        change("quantization", {"quantization": None}, "error"),
        change("quantization_config", {"quantization": None, "quantization_config": base}, "same", or_error=True),
        change("quantization.mode", {"quantization": {"mode": "no-such-mode"}}, "error"),
    ]
    changes += [change(f"quantization.{f}", {"quantization": {f: value}}, "error") for f, value in wrong.items()]
    overrides = [k for k, v in base.items() if isinstance(v, dict)]
    return changes + [change(f"quantization.{n}", {"quantization": {n: None}}, "error") for n in overrides]


def changes_of(config):
    if "quantization" in config:
        return quantization_changes(config)
    activation = "hidden_activation" if config["model_type"] == "gemma3_text" else "hidden_act"
    changes = shape_changes(config) + family_changes(config) + [
        change("rms_norm_eps", {"rms_norm_eps": 0.05}),
        change(activation, {activation: "relu"}, or_error=True),
    ]
    if config["tie_word_embeddings"]:
        return changes + [change("tie_word_embeddings", {"tie_word_embeddings": False}, "error")]
    return changes + [change("tie_word_embeddings", {"tie_word_embeddings": True}, or_error=True)]


def merge(target, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result
