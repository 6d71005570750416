"""Runs a checkpoint in the two references, both in float32: transformers (PyTorch) and mlx-lm (MLX on the CPU)."""
import importlib.metadata
import json
import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model
from transformers import AutoConfig, AutoModelForCausalLM

from tiny_model import generator, recipes

mx.set_default_device(mx.cpu)


def versions():
    return {name: importlib.metadata.version(name) for name in ("mlx", "mlx-lm", "torch", "transformers")}


def stored_weights(tensors):
    return {t["name"]: (t["dtype"], generator.fill(t)) for t in tensors}


def dequantized(config, tensors):
    """Float32 weights under their dense names; the codes are unpacked by mx.dequantize."""
    stored = {t["name"]: generator.to_float32(generator.fill(t), t["dtype"]) for t in tensors}
    dense = {}
    for name, array in stored.items():
        module = name.rpartition(".")[0]
        if name.endswith((".scales", ".biases")):
            continue
        if f"{module}.scales" in stored and name.endswith(".weight"):
            form = recipes.quantization_of(config, module)
            biases = stored.get(f"{module}.biases")
            array = np.array(mx.dequantize(
                mx.array(array), mx.array(stored[f"{module}.scales"]), None if biases is None else mx.array(biases),
                group_size=form["group_size"], bits=form["bits"], mode=form.get("mode", "affine"), dtype=mx.float32))
        dense[name] = array
    return dense


class Transformers:
    """transformers, eager attention, float32, dequantised weights."""

    name = "transformers"

    def __init__(self, config, tensors):
        with tempfile.TemporaryDirectory() as folder:
            plain = {k: v for k, v in config.items() if k not in ("quantization", "quantization_config")}
            Path(folder, "config.json").write_text(json.dumps(plain))
            loaded = AutoConfig.from_pretrained(folder)
        loaded._attn_implementation = "eager"
        self.model = AutoModelForCausalLM.from_config(loaded, dtype=torch.float32).eval()
        state = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in dequantized(config, tensors).items()}
        if loaded.tie_word_embeddings:
            state.pop("lm_head.weight", None)  # it would overwrite the embedding, whose storage it shares
        absent, unknown = self.model.load_state_dict(state, strict=False)
        absent = [n for n in absent if not (n == "lm_head.weight" and loaded.tie_word_embeddings)]
        if absent or unknown:
            raise ValueError(f"absent tensors {absent}, unknown tensors {unknown}")
        self.model.tie_weights()

    def logits(self, prompt, decoded=0):
        """[len(prompt), vocabulary]; the last `decoded` tokens are fed one by one over the cache."""
        first = len(prompt) - decoded
        ids = torch.tensor([prompt])
        with torch.no_grad():
            out = self.model(ids[:, :first], use_cache=True)
            rows, cache = [out.logits[0].numpy()], out.past_key_values
            for position in range(first, len(prompt)):
                out = self.model(ids[:, position : position + 1], past_key_values=cache, use_cache=True)
                rows.append(out.logits[0].numpy())
        return np.concatenate(rows)


class MlxLm:
    """mlx-lm, its two known departures undone; float tensors widened to float32, packed codes as they are."""

    name = "mlx-lm"

    def __init__(self, config, tensors):
        self.scale = 1.0
        if config["model_type"] == "gemma3_text":  # it rounds sqrt(hidden) to bfloat16 whatever the dtype
            root = config["hidden_size"] ** 0.5
            self.scale = root / mx.array(root, mx.bfloat16).astype(mx.float32).item()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps(config))
            wide = {}
            for name, (dtype, array) in stored_weights(tensors).items():
                keep = dtype in generator.WORD_BITS
                wide[name] = (dtype if keep else "F32", generator.to_float32(array, dtype))
            generator.write_safetensors(Path(folder, "model.safetensors"), wide)
            self.model, _ = load_model(Path(folder))
        if config["model_type"] == "mistral" and config.get("sliding_window"):  # it attends to everything otherwise
            self.model.model.swa_idx = 0
            for layer in self.model.model.layers:
                layer.use_sliding = True

    def forward(self, ids, cache):
        embeddings = None if self.scale == 1.0 else self.model.model.embed_tokens(ids) * self.scale
        return np.array(self.model(ids, cache=cache, input_embeddings=embeddings)[0])

    def logits(self, prompt, decoded=0):
        first, cache = len(prompt) - decoded, make_prompt_cache(self.model)
        rows = [self.forward(mx.array([prompt[:first]]), cache)]
        rows += [self.forward(mx.array([[token]]), cache) for token in prompt[first:]]
        return np.concatenate(rows)
