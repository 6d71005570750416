#!/usr/bin/env python3
"""Times Penstock beside a base build, mlx-lm and llama.cpp on the same weights, in interleaved rounds; prints medians, spread, ratios.

  compare.py --penstock build/penstock --model MODEL.gguf [--base OTHER/penstock]
             [--mlx-python VENV/bin/python --mlx-model FOLDER] [--llama-bench PATH] [--llama-batched-bench PATH] [--gguf MODEL.gguf]
  compare.py --penstock build/penstock --model MODEL.gguf --clients 8 --llama-server PATH
  compare.py --penstock build/penstock --rows ROWS.json ...

A peer whose path is not given or that fails is named and left out; a number is only ever one that a program printed in this run.
ROWS.json is a list of objects with any of: label, model, gguf, mlx_model, prompt, gen, depth, batch, clients, rounds; what a row leaves out is
that of the command line. The result is one table in Markdown.
"""
import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from peers import Failed, LlamaCpp, MlxLm, Penstock
from servers import LlamaServer, PenstockServer

ROW_KEYS = {"label", "model", "gguf", "mlx_model", "prompt", "gen", "depth", "batch", "clients", "rounds", "penstock_args", "repeat"}


def contestants(case):
    found, absent = [], []
    if case.clients:
        found.append(PenstockServer(case.penstock))
        peers = ((LlamaServer, (case.llama_server,)),)
    else:
        found.append(Penstock("penstock", case.penstock))
        if case.base:
            found.append(Penstock("base", case.base))
        peers = ((MlxLm, (case.mlx_python,)), (LlamaCpp, (case.llama_bench, case.llama_batched_bench)))
    for peer, paths in peers:
        found.append(peer(*paths)) if paths[0] else absent.append((peer.name, "no path given"))
    return found, absent


def rounds(runners, absent, case):
    """{name: {phase: [tokens a second]}}; who fails once is left out from there on."""
    results = {runner.name: {} for runner in runners}
    for number in range(case.rounds):
        turn = number % max(len(runners), 1)
        for runner in list(runners[turn:] + runners[:turn]):  # nobody always runs after the same neighbour
            try:
                for phase, speed in runner.once(case).items():
                    results[runner.name].setdefault(phase, []).append(speed)
            except (Failed, ValueError, KeyError, IndexError, StopIteration, TypeError) as error:
                absent.append((runner.name, f"{type(error).__name__}: {error}"))
                results.pop(runner.name)
                runners = [r for r in runners if r is not runner]
        if not runners:
            break
    return results


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
        flags = next((line.split(":")[1].split() for line in lines if line.startswith("flags")), [])
        kinds = [kind for flag, kind in (("avx2", "AVX2"), ("avx512f", "AVX-512"), ("avx512_vnni", "VNNI")) if flag in flags]
        return f"{name} ({', '.join(kinds)})" if kinds else name
    except (OSError, StopIteration):
        out = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        return out.stdout.strip() or "unknown"


def summary(speeds):
    return {"median": statistics.median(speeds), "min": min(speeds), "max": max(speeds)}


def measure(case):
    runners, absent = contestants(case)
    everyone = list(runners)
    try:
        results = rounds(runners, absent, case)
    finally:
        for runner in everyone:
            getattr(runner, "close", lambda: None)()
    figures = {name: {phase: summary(speeds) for phase, speeds in phases.items()} for name, phases in results.items() if phases}
    ours = figures.get("penstock")
    return {
        "label": case.label, "processor": processor(), "cores": os.cpu_count(), "load": [round(x, 2) for x in os.getloadavg()],
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "unset"), "rounds": case.rounds, "model": case.model,
        "prompt": case.prompt, "gen": case.gen, "depth": case.depth, "batch": case.batch, "clients": case.clients, "figures": figures,
        "ratios": {name: {phase: ours[phase]["median"] / figures[name][phase]["median"] for phase in figures[name] if phase in ours}
                   for name in figures if ours and name != "penstock"},
        "notes": {runner.name: runner.notes for runner in everyone if runner.name in figures},
        "left_out": [{"name": name, "why": why} for name, why in absent],
    }


def mine(result):
    """What our own bench says beside its speed, in words."""
    notes = result["notes"].get("penstock", {})
    words = [str(notes[key]) for key in ("executor_detail",) if key in notes]
    words += [f"logits {notes['logits_hash']}"] if "logits_hash" in notes else []
    if notes.get("decode_bytes_per_s"):
        words.append(f"{notes['weight_bytes_per_token'] / 1e6:.1f} MB of weights a token, {notes['decode_bytes_per_s'] / 1e9:.1f} GB/s, "
                     f"{notes['percent_of_read_bandwidth']:.0f} % of {notes['read_bandwidth_bytes_per_s'] / 1e9:.1f} GB/s read with {notes['read_streams']} streams a thread")
        words.append(f"weights {'fit' if notes['weights_fit_in_cache'] else 'do not fit'} in the last-level cache ({notes['last_level_cache_bytes'] / 1e6:.0f} MB)")
    return words


def print_table(result):
    print(f"{result['processor']}, {result['cores']} cores, load {result['load'][0]}; prompt {result['prompt']}, gen {result['gen']}, "
          f"depth {result['depth']}, batch {result['batch']}, clients {result['clients']}; {result['rounds']} rounds; tokens a second: median (min to max)")
    for name, phases in result["figures"].items():
        cells = [f"{phase} {f['median']:.1f} ({f['min']:.1f} to {f['max']:.1f})" for phase, f in phases.items()]
        ratio = result["ratios"].get(name)
        cells += ["penstock is " + " and ".join(f"{r:.2f}" for r in ratio.values()) + " times this"] if ratio else []
        print(f"{name:10} " + "; ".join(cells))
    for word in mine(result):
        print(f"penstock: {word}")
    for name, notes in result["notes"].items():
        print(f"{name}: {json.dumps(notes)}")
    print(f"OMP_WAIT_POLICY: {result['OMP_WAIT_POLICY']}")
    for item in result["left_out"]:
        print(f"left out: {item['name']} ({item['why']})")


def cell(figure):
    return f"{figure['median']:.1f} ({figure['min']:.1f} to {figure['max']:.1f})" if figure else ""


def work_of(result):
    """What was timed, in words."""
    words = [f"prompt {result['prompt']}, {result['gen']} tokens"]
    words += [f"{result[key]} {name}" for key, name in (("depth", "before them"), ("clients", "clients")) if result[key]]
    return ", ".join(words + ([f"batch {result['batch']}"] if result["batch"] > 1 else []))


def print_markdown(results):
    first = results[0]
    print(f"{first['processor']}, {first['cores']} cores, OMP_WAIT_POLICY {first['OMP_WAIT_POLICY']}; tokens a second: median (min to max)\n")
    print("| row | program | prefill | decode | all, prompts too | penstock is times this: prefill, decode, all | load | notes |\n|---|---|---|---|---|---|---|---|")
    for result in results:
        label = f"{result['label'] or Path(result['model']).name}: {work_of(result)}; {result['rounds']} rounds"
        for name, phases in result["figures"].items():
            ratio = result["ratios"].get(name, {})
            notes = mine(result) if name == "penstock" else [json.dumps(result["notes"].get(name, {}))]
            print(f"| {label} | {name} | {cell(phases.get('prefill'))} | {cell(phases.get('decode'))} | {cell(phases.get('whole'))} | "
                  + ", ".join(f"{ratio[phase]:.2f}" for phase in ("prefill", "decode", "whole") if phase in ratio) + f" | {result['load'][0]} | {'; '.join(notes)} |")
            label = ""
    for result in results:
        for item in result["left_out"]:
            print(f"\nleft out: {item['name']} of {result['label'] or result['model']} ({item['why']})")


def cases(options, parser):
    if not options.rows:
        if not options.model:
            parser.error("--model is needed without --rows")
        return [options]
    found = []
    for row in json.loads(Path(options.rows).read_text()):
        if unknown := set(row) - ROW_KEYS:
            parser.error(f"{options.rows}: unknown {sorted(unknown)}; a row has {sorted(ROW_KEYS)}")
        found.append(copy.copy(options))
        vars(found[-1]).update(row)
        if not found[-1].model:
            parser.error(f"{options.rows}: a row has no model and --model is not given")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", required=True, help="the program under test")
    parser.add_argument("--model", help="what penstock runs: a GGUF file or an MLX folder")
    parser.add_argument("--rows", help="a JSON file with a list of rows; prints one Markdown table")
    parser.add_argument("--base", help="another build of penstock to compare with")
    parser.add_argument("--mlx-python", help="the Python of a virtual environment that has mlx-lm")
    parser.add_argument("--mlx-model", help="the same weights as an MLX folder (penstock convert MODEL.gguf FOLDER)")
    parser.add_argument("--llama-bench")
    parser.add_argument("--llama-batched-bench", help="for --batch above 1")
    parser.add_argument("--llama-server", help="for --clients")
    parser.add_argument("--llama-flash", default="auto", help="-fa of llama.cpp: auto, 0, 1; several, separated by commas: the fastest of each phase, tried once")
    parser.add_argument("--llama-threads", default="", help="-t of llama.cpp, likewise; default: --threads")
    parser.add_argument("--llama-wait", default=os.environ.get("OMP_WAIT_POLICY", "unset"), help="OMP_WAIT_POLICY of llama.cpp, likewise: unset, active, passive")
    parser.add_argument("--gguf", help="the same weights as a GGUF file, where --model is an MLX folder")
    parser.add_argument("--penstock-args", default="", help="more arguments for `penstock bench`, in one string")
    for name, default in (("prompt", 512), ("gen", 64), ("depth", 0), ("batch", 1), ("clients", 0), ("rounds", 5), ("threads", 0), ("repeat", 0), ("timeout", 1800)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table: one object, with --rows a list")
    options = parser.parse_args()
    options.label = ""
    results = [measure(case) for case in cases(options, parser)]
    if options.json:
        print(json.dumps(results if options.rows else results[0]))
    else:
        print_markdown(results) if options.rows else print_table(results[0])
    return 0 if all("penstock" in result["figures"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
