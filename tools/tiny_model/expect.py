"""Runs both references over a recipe and writes the fixture's expected logits."""
import numpy as np

from tiny_model import generator, recipes, variants
from tiny_model.references import MlxLm, Transformers, versions

LENGTHS = (300, 37, 130)  # past a window of 48, past a block of 64, past a chunk of 256
DECODED = 8
POSITIONS = ((0, 1, 47, 48, 63, 64, 128, 255, 256, 291) + tuple(range(292, 300)), (0, 20, 36), (63, 64, 129))
AGREED = 2e-4  # two float32 implementations of one model differ by less than this
NOTICED = 0.02  # a field that matters moves some logit by at least this


def prompts_of(vocab_size):
    """Prompt i is the stream "prompt.i" modulo the vocabulary."""
    return [[int(z % np.uint64(vocab_size)) for z in generator.stream(f"prompt.{i}", n)] for i, n in enumerate(LENGTHS)]


def difference(a, b):
    return float(np.abs(a - b).max())


def try_mlx(config, tensors, prompt):
    try:
        return MlxLm(config, tensors).logits(prompt)
    except Exception as error:  # any refusal counts: mlx-lm raises whatever its config class raises
        return str(error).splitlines()[0][:120]


def variant_row(change, config, tensors, prompt, base):
    """The logits of the last position under a changed config, and what the two references say about it."""
    changed = variants.merge(config, change["patch"])
    notes = dict(change)
    if "quantization" in config:
        mlx = try_mlx(changed, tensors, prompt)
        notes["mlx-lm"] = "refuses" if isinstance(mlx, str) else difference(mlx[-1], base)
        return None, notes
    row = Transformers(changed, tensors).logits(prompt)[-1]
    notes["change"] = difference(row, base)
    mlx = try_mlx(changed, tensors, prompt)
    notes["mlx-lm"] = "refuses" if isinstance(mlx, str) else difference(mlx[-1], row)
    if change["expect"] == "logits" and notes["change"] < NOTICED:
        raise ValueError(f"{change['field']} does not matter: {notes}")
    if change["expect"] == "same" and notes["change"] > AGREED:
        raise ValueError(f"{change['field']} should not matter: {notes}")
    return row, notes


def rounded(value):
    return float(f"{value:.2e}") if isinstance(value, float) else value


def make(name):
    """(index, rows [n, vocabulary]) of one fixture; raises when the references disagree or a field does not matter."""
    config = recipes.RECIPES[name]
    tensors, prompts = recipes.tensor_list(config), prompts_of(config["vocab_size"])
    truth, peer = Transformers(config, tensors), MlxLm(config, tensors)
    logits = [truth.logits(p) for p in prompts]
    apart = max(difference(a, peer.logits(p)) for a, p in zip(logits, prompts))
    stepwise = difference(truth.logits(prompts[0], DECODED), logits[0])
    if max(apart, stepwise) > AGREED:
        raise ValueError(f"{name}: references differ by {apart}, decode differs by {stepwise}")
    rows = [logits[p][position] for p in range(len(prompts)) for position in POSITIONS[p]]
    places = [{"prompt": p, "position": position} for p in range(len(prompts)) for position in POSITIONS[p]]
    changes = []
    for change in variants.changes_of(config):
        notes = change
        if change["expect"] != "error" or "quantization" in config:
            row, notes = variant_row(change, config, tensors, prompts[0], logits[0][-1])
            if change["expect"] == "logits":
                notes["row"] = len(rows)
                rows.append(row)
        changes.append({k: rounded(v) for k, v in notes.items()})
    index = {
        "reference": {"name": "transformers", "dtype": "float32", "attention": "eager", **versions()},
        "max_abs_difference": {"mlx-lm": rounded(apart), "decode": rounded(stepwise)},
        "logit_std": round(float(np.concatenate(logits).std()), 3), "vocab_size": config["vocab_size"],
        "decode": {"prompt": 0, "tokens": DECODED}, "fields_that_matter": sorted({c["field"] for c in changes}),
        "rows": places, "variants": changes, "prompts": prompts,
    }
    return index, np.stack(rows).astype("<f4")
