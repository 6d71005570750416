"""`penstock convert`: the contract for scripts, and its folders read by mlx and mlx-lm where Python has them."""
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOKENS = [1, 30, 77, 5, 9, 12, 101, 64]
GIVEN = ",".join(map(str, TOKENS))
FORMATS = [("affine", bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)] + [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The llama fixture: dense float32, hidden 96, width 160."""
    folder = tmp_path_factory.mktemp("tiny") / "model"
    subprocess.run([sys.executable, str(ROOT / "tools/make_tiny_model.py"), "weights", "llama", str(folder)], check=True)
    return folder


def arguments(mode, bits, group):
    return ["--mode", mode, "--bits", str(bits), "--group-size", str(group)]


def logits(penstock, model, tokens=GIVEN):
    return json.loads(penstock("logits", str(model), "--tokens", tokens, "--exact").stdout)["logits"]


def furthest(ours, theirs):
    return max(abs(a - b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))


def mlx_logits(folder, tokens):
    """mlx-lm in float32, which changes no weight."""
    import mlx.core as mx
    from mlx.utils import tree_map
    from mlx_lm.utils import load_model

    model, _ = load_model(Path(folder))
    wide = tree_map(lambda a: a.astype(mx.float32) if mx.issubdtype(a.dtype, mx.floating) else a, model.parameters())
    model.update(wide)
    return model(mx.array([tokens]))[0].tolist()


def test_json_summary(penstock, tiny, tmp_path):
    out = penstock("convert", str(tiny), str(tmp_path / "made"), "--bits", "4", "--group-size", "32", "--json")
    summary = json.loads(out.stdout)
    assert summary["path"] == str(tmp_path / "made") and summary["resumed"] is False
    assert summary["quantization"] == {"group_size": 32, "bits": 4, "mode": "affine"}
    assert summary["files"][0]["name"] == "model.safetensors"
    assert summary["size_bytes"] == (tmp_path / "made/model.safetensors").stat().st_size
    counts = {(t["from"], t["to"], t["how"]): t["count"] for t in summary["tensors"]}
    assert counts == {("f32", "affine 4-bit group 32", "quantized"): 23, ("f32", "f32", "unchanged"): 7}


@pytest.mark.parametrize("given", [
    ["--bits", "7"], ["--group-size", "64"], ["--mode", "mxfp4", "--bits", "8"], ["--mode", "nvfp4", "--group-size", "32"],
    ["--bits", "4", "--group-size", "16"], ["--mode", "int4"], ["--dtype", "float64"],
])
def test_bad_usage_is_status_2(penstock, tiny, tmp_path, given):
    out = penstock("convert", str(tiny), str(tmp_path / "made"), *given, check=False)
    assert out.returncode == 2 and out.stdout == "" and out.stderr != ""
    assert not (tmp_path / "made").exists()


def test_a_finished_model_is_not_overwritten(penstock, tiny, tmp_path):
    made = str(tmp_path / "made")
    penstock("convert", str(tiny), made)
    refused = penstock("convert", str(tiny), made, "--bits", "4", check=False)
    assert refused.returncode == 2 and "--force" in refused.stderr
    penstock("convert", str(tiny), made, "--bits", "4", "--group-size", "32", "--force")
    assert json.loads((tmp_path / "made/config.json").read_text())["quantization"]["bits"] == 4


def test_groups_that_fit_no_matrix_are_said(penstock, tiny, tmp_path):
    out = penstock("convert", str(tiny), str(tmp_path / "made"), "--bits", "4", "--group-size", "64")
    assert "nothing was quantised" in out.stderr


@pytest.mark.parametrize("mode,bits,group", FORMATS)
def test_every_format_loads(penstock, tiny, tmp_path, mode, bits, group):
    """In Penstock, and in mlx-lm with the same logits; the codes are those of mx.quantize."""
    made = tmp_path / "made"
    penstock("convert", str(tiny), str(made), *arguments(mode, bits, group))
    ours = logits(penstock, made)
    mx = pytest.importorskip("mlx.core")
    pytest.importorskip("mlx_lm")
    dense, packed = mx.load(str(tiny / "model.safetensors")), mx.load(str(made / "model.safetensors"))
    for name, array in dense.items():
        if array.ndim == 1 or array.shape[-1] % group:
            assert mx.array_equal(packed[name], array), name
            continue
        wanted = mx.quantize(array, group_size=group, bits=bits, mode=mode)
        for part, values in zip(("weight", "scales", "biases"), wanted):
            assert mx.array_equal(packed[name.replace("weight", part)], values), f"{name} {part}"
    assert furthest(ours, mlx_logits(made, TOKENS)) < 2e-3


def test_gguf_keeps_its_values_and_text(penstock, smollm2, tmp_path):
    """SmolLM2's Q4_1 and Q8_0 are MLX affine without loss: the same logits to the bit, the same greedy answer."""
    made = tmp_path / "mlx"
    summary = json.loads(penstock("convert", smollm2, str(made), "--json").stdout)
    assert {t["how"] for t in summary["tensors"]} == {"without loss"}
    tokens = "504,3575,282,4649,314"
    assert penstock("logits", smollm2, "--tokens", tokens, "--exact").stdout == penstock("logits", str(made), "--tokens", tokens, "--exact").stdout

    def answer(model):
        out = json.loads(penstock("generate", str(model), "Name three colours.", "--json", "--temperature", "0", "--max-tokens", "24").stdout)
        return out["prompt_tokens"], out["tokens"], out["finish_reason"]

    assert answer(made) == answer(smollm2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2", "qwen2.5-coder-0.5b", "gemma3-270m"])
def test_mlx_lm_reads_a_converted_gguf(penstock, tmp_path, name):
    """With the tokenizer that transformers makes of the folder, and logits near ours."""
    pytest.importorskip("mlx.core")
    utils = pytest.importorskip("mlx_lm.utils")
    penstock("pull", name, timeout=3600)
    made = tmp_path / "mlx"
    penstock("convert", name, str(made), "--dtype", "float32")
    text = "The capital of France is Paris, isn't it? Yes,\n  42 times."
    answer = json.loads(penstock("generate", name, text, "--raw", "--json", "--max-tokens", "1").stdout)
    tokenizer = utils.load_tokenizer(made)
    assert list(tokenizer.encode(text)) == answer["prompt_tokens"]
    tokens = answer["prompt_tokens"]
    ours = logits(penstock, made, ",".join(map(str, tokens)))
    assert furthest(ours, mlx_logits(made, tokens)) < (0.05 if name == "gemma3-270m" else 5e-3)


@pytest.mark.slow
def test_interrupted_it_goes_on(binary, penstock, smollm2, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    given = ["--mode", "mxfp4", "--threads", "1"]
    penstock("convert", smollm2, str(whole), *given)
    process = subprocess.Popen([binary, "convert", smollm2, str(cut), *given], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (cut / "model.safetensors.incomplete").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(2)
    process.communicate(timeout=60)
    assert process.returncode in (130, 0)
    if process.returncode == 130:
        assert not (cut / "config.json").exists()
        refused = penstock("convert", smollm2, str(cut), "--bits", "4", check=False)
        assert refused.returncode == 2 and "unfinished" in refused.stderr
        penstock("convert", smollm2, str(cut), *given)
    assert {p.name: p.read_bytes() for p in whole.iterdir()} == {p.name: p.read_bytes() for p in cut.iterdir()}
