"""The stored fixtures agree with the recipes and the written generator; needs numpy and pytest only."""
import json
import sys
from pathlib import Path

import pytest

numpy = pytest.importorskip("numpy")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from tiny_model import encoders, generator, recipes, variants  # noqa: E402


def test_samples_of_the_document():
    rows = [line.split("|") for line in (ROOT / "docs/dev/fixtures.md").read_text().splitlines() if "| 0x" in line]
    name = "model.embed_tokens.weight"
    filled = generator.fill({"name": name, "shape": [5], "dtype": "F32", "fill": {"kind": "uniform", "centre": 0.0, "span": 0.25}})
    assert len(rows) == 5
    for row, z, value in zip(rows, generator.stream(name, 5), filled):
        assert int(row[2], 16) == int(z)
        assert numpy.float32(row[3]) == value


def test_bfloat16_rounds_ties_to_even():
    values = numpy.array([0x3F808000, 0x3F818000, 0x3F808001], numpy.uint32).view(numpy.float32)
    assert generator.to_bfloat16(values).tolist() == [0x3F80, 0x3F82, 0x3F81]


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_fixture_matches_its_recipe(name):
    folder = ROOT / "tests/models" / name
    config, tensors, expected = (json.loads((folder / f"{part}.json").read_text()) for part in ("config", "tensors", "expected"))
    assert config == recipes.RECIPES[name]
    assert tensors == recipes.tensor_list(config)
    assert [[c["field"], c["patch"], c["expect"]] for c in expected["variants"]] == [
        [c["field"], c["patch"], c["expect"]] for c in variants.changes_of(config)]
    rows = len(expected["rows"]) + sum("row" in c for c in expected["variants"])
    logits = numpy.frombuffer((folder / "expected.bin").read_bytes(), "<f4")
    assert logits.size == rows * config["vocab_size"]
    assert numpy.isfinite(logits).all()


@pytest.mark.parametrize("name", encoders.RECIPES)
def test_encoder_fixture_matches_its_recipe(name):
    folder = ROOT / "tests/models" / name
    config, tensors, expected = (json.loads((folder / f"{part}.json").read_text()) for part in ("config", "tensors", "expected"))
    assert config == encoders.RECIPES[name]
    assert tensors == encoders.tensor_list(config)
    assert [[c["field"], c["patch"], c["expect"]] for c in expected["variants"]] == [
        [c["field"], c["patch"], c["expect"]] for c in encoders.changes_of(config)]
    assert expected["texts"] == encoders.texts_of(config["vocab_size"])
    values = numpy.frombuffer((folder / "expected.bin").read_bytes(), "<f4")
    assert values.size == (len(expected["texts"]) + sum("row" in c for c in expected["variants"])) * expected["width"]
    assert numpy.isfinite(values).all()


def test_merge_patch_deletes_with_null():
    assert variants.merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None, "e": 4}, "d": None}) == {"a": {"c": 2, "e": 4}}
