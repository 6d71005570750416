#!/usr/bin/env python3
"""What int8 activations cost: KL divergence and perplexity against float32 activations on real text, beside what llama.cpp's Q4_0 costs against its F32.

  accuracy.py --penstock build/penstock --model MODEL.gguf [--model OTHER] [--windows 12] [--revision COMMIT]
              [--llama-perplexity PATH --llama-quantize PATH --scratch FOLDER]

The text is made of this repository's own documents and sources (TEXT below, of a git revision where one is given) and its hash is printed.
Both programs cut it into windows of 512 tokens and score the second half of each. Exit status 1 where a goal is missed: KL no worse than that of
llama.cpp, perplexity up by 0.5 % at most. llama.cpp's files are made from the model with llama-quantize --allow-requantize (F32, and Q4_0 of that).
"""
import argparse
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# English and code in turn, so that any number of windows has both.
TEXT = ("docs/dev/engine.md", "src/exec/logits_runner.cpp", "docs/dev/cpu.md", "tools/check_layers.py", "docs/guide/serve.md", "src/engine/scheduler.cpp",
        "docs/dev/text.md", "rust/textkit/src/pieces.rs", "docs/guide/models.md", "src/exec/cpu/thread_pool.cpp", "docs/dev/adding.md", "src/cli/generate.cpp",
        "AGENTS.md", "src/quant/gguf.cpp", "docs/dev/cuda.md", "src/pool/loader.cpp")
MOST_RISE_PERCENT = 0.5


def make_text(revision):
    def read(path):
        if not revision:
            return (ROOT / path).read_bytes()
        return subprocess.run(["git", "-C", str(ROOT), "show", f"{revision}:{path}"], capture_output=True, check=True).stdout

    return b"\n".join(read(path) for path in TEXT)


def run(command, timeout=3600):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=timeout)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout + done.stderr


def ours(options, model, text):
    out = run([options.penstock, "perplexity", model, text, "--windows", options.windows, "--against-exact", "--json", "--log-level", "error"])
    return json.loads(out[out.index("{"):])


def parse_llama(out):
    """The figures of llama-perplexity --kl-divergence."""
    def figure(name):
        found = re.search(rf"{name}\s*:\s*(-?[\d.]+)(?:\s*±\s*([\d.]+))?", out)
        if not found:
            raise ValueError(f"llama-perplexity printed no {name}")
        return float(found[1])

    return {"mean_kl": figure(r"Mean\s+KLD"), "perplexity": figure(r"Mean PPL\(Q\)"), "exact_perplexity": figure(r"Mean PPL\(base\)"),
            "perplexity_rise_percent": 100 * (figure(r"Mean PPL\(Q\)/PPL\(base\)") - 1)}


def llama(options, model, text):
    """None where it cannot be run: a folder has no GGUF, or its programs were not given."""
    if not options.llama_perplexity or not str(model).endswith(".gguf"):
        return None
    scratch = Path(options.scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    full, small, base = (scratch / f"{Path(model).stem}{end}" for end in ("-f32.gguf", "-q4_0.gguf", "-f32.logits"))
    if not full.exists():
        run([options.llama_quantize, "--allow-requantize", model, full, "F32"])
    if not small.exists():
        run([options.llama_quantize, full, small, "Q4_0"])
    common = ["-f", text, "-c", 512, "-b", 512, "--chunks", options.windows, "--kl-divergence-base", base]
    run([options.llama_perplexity, "-m", full, *common])
    figures = parse_llama(run([options.llama_perplexity, "-m", small, *common, "--kl-divergence"]))
    base.unlink()
    if not options.keep:
        full.unlink()
    return figures


def judge(own, peer):
    missed = []
    if own["perplexity_rise_percent"] > MOST_RISE_PERCENT:
        missed.append(f"perplexity rises by {own['perplexity_rise_percent']:.2f} %")
    if peer and own["mean_kl"] > peer["mean_kl"]:
        missed.append(f"KL {own['mean_kl']:.5f} is above llama.cpp's {peer['mean_kl']:.5f}")
    return missed


def row(own, peer, model):
    cells = [Path(model).name, f"{own['scored_tokens']}", f"{own['exact_perplexity']:.3f}", f"{own['perplexity']:.3f}",
             f"{own['perplexity_rise_percent']:+.3f} % (error {own['perplexity_rise_error_percent']:.3f})", f"{own['mean_kl']:.5f} (error {own['mean_kl_error']:.5f})",
             f"{own['same_likeliest_percent']:.1f} %", *([f"{peer['mean_kl']:.5f}", f"{peer['perplexity_rise_percent']:+.2f} %"] if peer else ["", ""])]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--model", action="append", required=True, help="a GGUF file or an MLX folder; may be given again")
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--revision", help="take the text from this commit instead of the working tree")
    parser.add_argument("--llama-perplexity")
    parser.add_argument("--llama-quantize")
    parser.add_argument("--scratch", default="accuracy-scratch", help="folder for the text and llama.cpp's files")
    parser.add_argument("--keep", action="store_true", help="keep the F32 files")
    options = parser.parse_args()
    Path(options.scratch).mkdir(parents=True, exist_ok=True)
    text = Path(options.scratch) / "text.txt"
    text.write_bytes(make_text(options.revision))
    print(f"text {hashlib.sha256(text.read_bytes()).hexdigest()[:16]}, {text.stat().st_size} bytes, {options.windows} windows of 512 tokens\n")
    print("| model | scored tokens | perplexity, float32 activations | int8 activations | rise | KL | same likeliest token | llama.cpp Q4_0: KL | rise |\n"
          "|---|---|---|---|---|---|---|---|---|")
    missed = []
    for model in options.model:
        own, peer = ours(options, model, text), llama(options, model, text)
        print(row(own, peer, model), flush=True)
        missed += [f"{Path(model).name}: {what}" for what in judge(own, peer)]
    for line in missed:
        print(f"\nmissed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
