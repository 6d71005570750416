#!/usr/bin/env python3
"""Greedy tokens of real models in float32, from transformers on the dequantised weights of a GGUF file.

  make_goldens.py NAME MODEL.gguf OUT.json [--llama-tokenize PATH]      needs transformers, torch, gguf, tokenizers

End-of-text tokens do not stop a continuation. The prompts' ids come from llama-tokenize where given (transformers' own conversion of some GGUF tokenizers is wrong), else from transformers.
"""
import argparse
import hashlib
import importlib.metadata
import json
import subprocess
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

STEPS, TOP = 64, 5
DAYS = [f"On day {i} the keeper of the mill wrote that the water stood {i * 7 % 13} hands high." for i in range(1, 31)]
PLAIN = [
    "The capital of France is",
    "Once upon a time there was a small boat that",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "Water boils at 100 degrees Celsius because",
    "1, 1, 2, 3, 5, 8, 13,",
]
CHAT = [
    "What is the capital of France?",
    "Write a haiku about rivers.",
    "List three uses of a sluice gate, one line each.",
    "Ecris une phrase en fran\u00e7ais sur la mer.",
]
MORE_PLAIN = ["Dear Sir or Madam,", "La mer est", "SELECT name, count(*) FROM", "The three laws of motion are:"]


def prompts_of(chat):
    """Nine short prompts and one past a chunk of 256 tokens; past Gemma's window of 512 where there is no chat template."""
    if not chat:
        return [*PLAIN, *MORE_PLAIN, " ".join(DAYS)]
    return [*PLAIN, *(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n" for text in CHAT), " ".join(DAYS[:15])]


def llama_ids(program, model, text):
    out = subprocess.run([program, "-m", model, "-p", text, "--ids", "--log-disable", "--no-escape"], capture_output=True, text=True, check=True)
    return json.loads(out.stdout.strip().splitlines()[-1])


def continuations(model, prompts):
    """Of each prompt: the greedy tokens, the gap between the two best logits at each step, the best few of the first step.

    The prompts run as one batch with padding on the left.
    """
    width = max(map(len, prompts))
    feed = torch.tensor([[0] * (width - len(ids)) + ids for ids in prompts])
    mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts])
    positions, cache = (mask.cumsum(-1) - 1).clamp(min=0), None
    results = [{"tokens": [], "gaps": []} for _ in prompts]
    for _ in range(STEPS):
        with torch.no_grad():
            out = model(feed, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache, best = out.past_key_values, torch.topk(out.logits[:, -1], TOP)
        for result, values, indices in zip(results, best.values.tolist(), best.indices.tolist()):
            result["tokens"].append(indices[0])
            result["gaps"].append(round(values[0] - values[1], 4))
            result.setdefault("first_top", [[i, round(v, 4)] for v, i in zip(values, indices)])
        feed, positions = best.indices[:, :1], positions[:, -1:] + 1
        mask = torch.cat([mask, torch.ones_like(feed)], dim=1)
    return results


def ids_of(text, tokenizer, options):
    ids = tokenizer(text).input_ids
    if options.llama_tokenize:
        wanted = llama_ids(options.llama_tokenize, str(options.model), text)
        if wanted != ids:
            print(f"tokenizers differ on {text[:40]!r}: transformers {ids[:12]}, llama.cpp {wanted[:12]}")
        ids = wanted
    return ids


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--llama-tokenize")
    options = parser.parse_args()
    source = {"gguf_file": options.model.name}
    tokenizer = AutoTokenizer.from_pretrained(options.model.parent, **source)
    model = AutoModelForCausalLM.from_pretrained(options.model.parent, dtype=torch.float32, **source).eval()
    texts = prompts_of("<|im_start|>" in tokenizer.get_vocab())
    prompts = [ids_of(text, tokenizer, options) for text in texts]
    results = continuations(model, prompts[:-1]) + continuations(model, prompts[-1:])
    items = [{"text": text, "ids": ids, **result} for text, ids, result in zip(texts, prompts, results)]
    for item in items:
        print(repr(tokenizer.decode(item["tokens"])), min(item["gaps"]), len(item["ids"]), flush=True)
    head = {
        "model": options.name, "file": options.model.name, "sha256": hashlib.sha256(options.model.read_bytes()).hexdigest(),
        "reference": {p: importlib.metadata.version(p) for p in ("transformers", "torch", "gguf")}, "dtype": "float32",
    }
    lines = ",\n".join(json.dumps(item) for item in items)
    options.out.write_text(json.dumps(head)[:-1] + f',\n"prompts": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
