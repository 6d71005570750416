#!/usr/bin/env python3
"""Wall clock from the start of a process to its first token, and its peak resident memory: `penstock generate` and `mlx_lm.generate` in turn.

  start.py --penstock build/penstock --model MODEL.gguf [--model FOLDER] [--mlx-python VENV/bin/python --mlx-model FOLDER]
           [--rounds 5] [--within SECONDS] [--times-mlx 5]

The page cache is warm: each file is read once before. Peak memory may be 1.15 times the weight file plus 64 MB plus the part of the KV pool in use,
which is a few MB here and is left out. Exit status 1 where memory, --within or --times-mlx is missed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROMPT = "Name three rivers."
TOKENS = 8
MLX_RULER = b"==========\n"  # mlx_lm.generate prints it ahead of the text


def files_of(model):
    path = Path(model)
    return sorted(path.glob("*.safetensors")) if path.is_dir() else [path]


def warm(model):
    for file in files_of(model):
        with open(file, "rb") as f:
            while f.read(1 << 24):
                pass


def launch(command, ruler):
    """(seconds to the first byte behind `ruler`, peak resident bytes) of a process."""
    with tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=errors, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        seen, first = b"", None
        while chunk := os.read(process.stdout.fileno(), 4096):
            seen += chunk
            at = seen.find(ruler)
            if first is None and at >= 0 and len(seen) > at + len(ruler):
                first = time.monotonic() - start
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        if process.returncode != 0 or first is None:
            errors.seek(0)
            sys.exit(f"{' '.join(map(str, command))}: status {process.returncode}: {errors.read().decode(errors='replace')[-500:]}")
    return first, usage.ru_maxrss * 1024


def commands(options):
    """{name: (command, ruler, model)}"""
    found = {}
    for model in options.model:
        found[f"penstock {Path(model).name}"] = ([options.penstock, "generate", model, PROMPT, "--max-tokens", TOKENS, "--temperature", 0], b"", model)
    if options.mlx_python:
        found["mlx_lm.generate"] = ([options.mlx_python, "-m", "mlx_lm", "generate", "--model", options.mlx_model, "--prompt", PROMPT, "--max-tokens", TOKENS],
                                    MLX_RULER, options.mlx_model)
    return found


def judge(report, options):
    missed = []
    mlx = report.get("mlx_lm.generate", {}).get("seconds")
    for name, own in report.items():
        if name == "mlx_lm.generate":
            continue
        if own["peak_bytes"] > own["allowed_bytes"]:
            missed.append(f"{name}: {own['peak_bytes'] / 1e6:.0f} MB is above {own['allowed_bytes'] / 1e6:.0f} MB")
        if options.within and own["seconds"] > options.within:
            missed.append(f"{name}: {own['seconds']:.2f} s is above {options.within} s")
        if mlx and options.times_mlx and mlx < options.times_mlx * own["seconds"]:
            missed.append(f"{name}: {mlx / own['seconds']:.1f} times sooner than mlx_lm.generate, not {options.times_mlx}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--mlx-python")
    parser.add_argument("--mlx-model", help="the folder for mlx_lm.generate; default: the first --model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--within", type=float, help="most seconds to the first token")
    parser.add_argument("--times-mlx", type=float, help="at least so many times sooner than mlx_lm.generate")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.mlx_model = options.mlx_model or options.model[0]
    everyone = commands(options)
    for _, _, model in everyone.values():
        warm(model)
    seconds, peaks = {name: [] for name in everyone}, {name: 0 for name in everyone}
    for _ in range(options.rounds):
        for name, (command, ruler, _) in everyone.items():
            first, peak = launch(command, ruler)
            seconds[name].append(first)
            peaks[name] = max(peaks[name], peak)
    report = {}
    for name, (_, _, model) in everyone.items():
        weights = sum(file.stat().st_size for file in files_of(model))
        report[name] = {"seconds": statistics.median(seconds[name]), "min": min(seconds[name]), "max": max(seconds[name]), "peak_bytes": peaks[name],
                        "weight_bytes": weights, "allowed_bytes": round(1.15 * weights) + (64 << 20)}
    missed = judge(report, options)
    if options.json:
        print(json.dumps({"load": os.getloadavg()[0], "rounds": options.rounds, "figures": report, "missed": missed}))
    else:
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.rounds} rounds; to the first token: median (min to max)")
        for name, own in report.items():
            print(f"{name:44} {own['seconds']:.2f} s ({own['min']:.2f} to {own['max']:.2f}); peak {own['peak_bytes'] / 1e6:.0f} MB, weights "
                  f"{own['weight_bytes'] / 1e6:.0f} MB, allowed {own['allowed_bytes'] / 1e6:.0f} MB")
        for line in missed:
            print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
