#!/usr/bin/env python3
"""Tiny models for the tests: their weights come from a generator, their expected logits from two references.

  make_tiny_model.py weights NAME FOLDER   writes config.json and model.safetensors of a fixture (numpy only)
  make_tiny_model.py expect [NAME ...]     makes the fixtures of tests/models again (mlx-lm, transformers, torch; of
                                           encoders without mlx-lm)
  make_tiny_model.py samples               prints the generator's sample values of docs/dev/fixtures.md
"""
import argparse
import json
from pathlib import Path

from tiny_model import generator

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "models"
SAMPLES = ("model.embed_tokens.weight", 5)


def write_weights(name, folder):
    config = json.loads((FIXTURES / name / "config.json").read_text())
    tensors = json.loads((FIXTURES / name / "tensors.json").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    generator.write_safetensors(folder / "model.safetensors", {t["name"]: (t["dtype"], generator.fill(t)) for t in tensors})


def write_expected(name):
    from tiny_model import encoders

    if name in encoders.RECIPES:
        recipe, (index, rows) = encoders, encoders.make(name)
    else:
        from tiny_model import expect, recipes

        recipe, (index, rows) = recipes, expect.make(name)
    config, folder = recipe.RECIPES[name], FIXTURES / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    tensors = ",\n".join(" " + json.dumps(t) for t in recipe.tensor_list(config))
    (folder / "tensors.json").write_text(f"[\n{tensors}\n]\n")
    (folder / "expected.json").write_text(generator.compact(index))
    (folder / "expected.bin").write_bytes(rows.tobytes())
    print(f"{name}: {len(rows)} rows, apart by {index.get('max_abs_difference')}", flush=True)
    for change in index["variants"]:
        print("  ", change["field"], {k: v for k, v in change.items() if k not in ("field", "patch")}, flush=True)


def print_samples():
    name, count = SAMPLES
    print(f"fnv1a({name}) = {generator.name_hash(name):#018x}")
    tensor = {"name": name, "shape": [count], "dtype": "F32", "fill": {"kind": "uniform", "centre": 0.0, "span": 0.25}}
    for i, (z, value) in enumerate(zip(generator.stream(name, count), generator.fill(tensor))):
        print(f"index {i}: {int(z):#018x} {float(value)!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    weights = commands.add_parser("weights")
    weights.add_argument("name")
    weights.add_argument("folder", type=Path)
    commands.add_parser("expect").add_argument("names", nargs="*")
    commands.add_parser("samples")
    options = parser.parse_args()
    if options.command == "weights":
        write_weights(options.name, options.folder)
    elif options.command == "samples":
        print_samples()
    else:
        from tiny_model import encoders, recipes

        for name in options.names or [*recipes.RECIPES, *encoders.RECIPES]:
            write_expected(name)


if __name__ == "__main__":
    main()
