"""Real weights against a float32 reference: 64 greedy tokens on ten prompts. A difference fails unless the reference's two best logits
lay within 0.005 of each other where the paths part."""
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLOSE = 0.005


def goldens(name):
    return json.loads((ROOT / f"tests/models/real/{name}.json").read_text())


def compare(penstock, model, golden, executor):
    for prompt in golden["prompts"]:
        out = penstock("generate", model, prompt["text"], "--raw", "--json", "--temperature", "0", "--repetition-penalty", "1", "--ignore-eos", "--exact",
                       "--max-tokens", str(len(prompt["tokens"])), "--executor", executor)
        answer = json.loads(out.stdout)
        assert answer["prompt_tokens"] == prompt["ids"], prompt["text"]
        for i, (ours, theirs) in enumerate(zip(answer["tokens"], prompt["tokens"], strict=True)):
            if ours != theirs:
                assert prompt["gaps"][i] <= CLOSE, f"{prompt['text']!r}: token {i} is {ours}, the reference has {theirs} by {prompt['gaps'][i]}"
                break


def test_smollm2_on_the_cpu_executor(penstock, smollm2):
    compare(penstock, smollm2, goldens("smollm2"), "cpu")


@pytest.mark.slow
def test_smollm2_on_mlx(penstock, smollm2, has_mlx):
    compare(penstock, smollm2, goldens("smollm2"), "mlx")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma3-270m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])
def test_larger_models_on_the_cpu_executor(penstock, name):
    penstock("pull", name, timeout=3600)
    compare(penstock, name, goldens(name), "cpu")
