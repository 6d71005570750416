#!/usr/bin/env python3
"""Times Penstock beside a base build, mlx-lm and llama.cpp on the same weights, in interleaved rounds; prints medians, spread, ratios.

  compare.py --penstock build/penstock --model MODEL.gguf [--base OTHER/penstock]
             [--mlx-python VENV/bin/python --mlx-model FOLDER] [--llama-bench PATH] [--llama-batched-bench PATH] [--gguf MODEL.gguf]

A peer whose path is not given or that fails is named and left out; a number is only ever one that a program printed in this run.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

PHASES = ("prefill", "decode")


class Failed(Exception):
    pass


def run(command, options):
    """Standard output of a command; Failed with its last error line otherwise."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(str(error)) from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Failed(f"exit status {done.returncode}: {lines[-1] if lines else 'no output'}")
    return done.stdout


def middle(value):
    """A figure of `penstock bench --json`: a number, or an object with its median."""
    return float(value["median"] if isinstance(value, dict) else value)


class Penstock:
    def __init__(self, name, program):
        self.name, self.program, self.notes = name, program, {}

    def once(self, options):
        command = [self.program, "bench", options.model, "--prompt", options.prompt, "--gen", options.gen, "--batch", options.batch, "--json"]
        command += ["--depth", options.depth] if options.depth else []
        command += ["--threads", options.threads] if options.threads else []
        command += options.penstock_args.split()
        report = json.loads(run(list(map(str, command)), options))
        self.notes = {k: v for k, v in report.items() if not k.endswith("_tokens_per_s")}
        return {phase: middle(report[f"{phase}_tokens_per_s"]) for phase in PHASES}


class MlxLm:
    name = "mlx-lm"

    def __init__(self, python):
        self.python, self.notes = python, {}

    def once(self, options):
        if options.depth:
            raise Failed("its benchmark has no --depth")
        model = options.mlx_model or (options.model if Path(options.model).is_dir() else None)
        if model is None:
            raise Failed("--mlx-model FOLDER is needed beside a GGUF file")
        out = run([self.python, "-m", "mlx_lm", "benchmark", "--model", model, "-p", str(options.prompt), "-g", str(options.gen),
                   "-b", str(options.batch), "-n", "1"], options)
        found = re.search(r"Trial 1:\s+prompt_tps=([\d.]+), generation_tps=([\d.]+)", out)
        if not found:
            raise Failed("its output has no trial line")
        self.notes = {"model": model}
        return {"prefill": float(found[1]), "decode": float(found[2])}


class LlamaCpp:
    """llama-bench; the decode speed of a batch above 1 is llama-batched-bench's, which counts the tokens of all sequences."""

    name = "llama.cpp"

    def __init__(self, bench, batched):
        self.bench, self.batched = bench, batched
        self.notes = {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "unset")}

    def once(self, options):
        model = options.gguf or (options.model if options.model.endswith(".gguf") else None)
        if model is None:
            raise Failed("--gguf FILE is needed beside an MLX folder")
        if options.batch > 1 and not self.batched:
            raise Failed("--llama-batched-bench PATH is needed for --batch above 1")
        gen = options.gen if options.batch == 1 else 0
        tests = [self.bench_once(model, options, "-p", options.prompt, "-n", 0)]
        tests += [self.bench_once(model, options, "-p", 0, "-n", gen, "-d", options.depth)] if gen else []
        self.notes.update(build=tests[0]["build_commit"], type=tests[0]["model_type"], threads=tests[0]["n_threads"])
        return {"prefill": tests[0]["avg_ts"], "decode": tests[1]["avg_ts"] if gen else self.batched_decode(model, options)}

    def bench_once(self, model, options, *arguments):
        out = run([self.bench, "-m", model, *map(str, arguments), "-r", "1", "-o", "json", *self.threads(options)], options)
        return json.loads(out)[0]

    def batched_decode(self, model, options):
        depth = max(options.depth, 1)
        out = run([self.batched, "-m", model, "-npp", str(depth), "-ntg", str(options.gen), "-npl", str(options.batch),
                   "-c", str(options.batch * (depth + options.gen)), "--output-format", "jsonl", *self.threads(options)], options)
        return next(json.loads(line) for line in out.splitlines() if line.startswith("{"))["speed_tg"]

    def threads(self, options):
        return ["-t", str(options.threads)] if options.threads else []


def contestants(options):
    found, absent = [Penstock("penstock", options.penstock)], []
    if options.base:
        found.append(Penstock("base", options.base))
    for peer, given in ((MlxLm(options.mlx_python), options.mlx_python),
                        (LlamaCpp(options.llama_bench, options.llama_batched_bench), options.llama_bench)):
        found.append(peer) if given else absent.append((peer.name, "no path given"))
    return found, absent


def rounds(runners, absent, options):
    """{name: {phase: [tokens a second]}}; who fails once is left out from there on."""
    results = {runner.name: {phase: [] for phase in PHASES} for runner in runners}
    for number in range(options.rounds):
        turn = number % len(runners)
        for runner in list(runners[turn:] + runners[:turn]):  # nobody always runs after the same neighbour
            try:
                for phase, speed in runner.once(options).items():
                    results[runner.name][phase].append(speed)
                print(f"round {number + 1} {runner.name}: load {os.getloadavg()[0]:.2f}", file=sys.stderr, flush=True)
            except (Failed, KeyError, TypeError, ValueError, StopIteration) as error:
                absent.append((runner.name, f"{type(error).__name__}: {error}"))
                results.pop(runner.name)
                runners = [r for r in runners if r is not runner]
        if not runners:
            break
    return results


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        out = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        return out.stdout.strip() or "unknown"


def summary(speeds):
    return {"median": statistics.median(speeds), "min": min(speeds), "max": max(speeds)}


def report(results, runners, absent, options):
    figures = {name: {phase: summary(speeds) for phase, speeds in phases.items()} for name, phases in results.items() if phases["decode"]}
    ours = figures.get("penstock")
    return {
        "processor": processor(), "cores": os.cpu_count(), "load": [round(x, 2) for x in os.getloadavg()], "rounds": options.rounds,
        "prompt": options.prompt, "gen": options.gen, "depth": options.depth, "batch": options.batch, "figures": figures,
        "ratios": {name: {phase: ours[phase]["median"] / figures[name][phase]["median"] for phase in PHASES}
                   for name in figures if ours and name != "penstock"},
        "notes": {runner.name: runner.notes for runner in runners if runner.name in figures},
        "left_out": [{"name": name, "why": why} for name, why in absent],
    }


def print_table(result):
    print(f"{result['processor']}, {result['cores']} cores, load {result['load'][0]}; prompt {result['prompt']}, gen {result['gen']}, "
          f"depth {result['depth']}, batch {result['batch']}; {result['rounds']} rounds; tokens a second: median (min to max)")
    for name, phases in result["figures"].items():
        cells = [f"{phase} {f['median']:.1f} ({f['min']:.1f} to {f['max']:.1f})" for phase, f in phases.items()]
        ratio = result["ratios"].get(name)
        cells += [f"penstock is {ratio['prefill']:.2f} and {ratio['decode']:.2f} times this"] if ratio else []
        print(f"{name:10} " + "; ".join(cells))
    for name, notes in result["notes"].items():
        print(f"{name}: {json.dumps(notes)}")
    for item in result["left_out"]:
        print(f"left out: {item['name']} ({item['why']})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", required=True, help="the program under test")
    parser.add_argument("--model", required=True, help="what penstock runs: a GGUF file or an MLX folder")
    parser.add_argument("--base", help="another build of penstock to compare with")
    parser.add_argument("--mlx-python", help="the Python of a virtual environment that has mlx-lm")
    parser.add_argument("--mlx-model", help="the same weights as an MLX folder (penstock convert MODEL.gguf FOLDER)")
    parser.add_argument("--llama-bench")
    parser.add_argument("--llama-batched-bench", help="for --batch above 1")
    parser.add_argument("--gguf", help="the same weights as a GGUF file, where --model is an MLX folder")
    parser.add_argument("--penstock-args", default="", help="more arguments for `penstock bench`, in one string")
    for name, default in (("prompt", 512), ("gen", 64), ("depth", 0), ("batch", 1), ("rounds", 5), ("threads", 0), ("timeout", 1800)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    options = parser.parse_args()
    runners, absent = contestants(options)
    result = report(rounds(runners, absent, options), runners, absent, options)
    print(json.dumps(result)) if options.json else print_table(result)
    return 0 if "penstock" in result["figures"] else 1


if __name__ == "__main__":
    sys.exit(main())
