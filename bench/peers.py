"""The programs that compare.py times: each `once(case)` runs one round and returns {phase: tokens a second}; `notes` say how it ran.

A case is a namespace of the options of compare.py; an attribute that a row of --rows names replaces that of the command line.
"""
import itertools
import json
import os
import re
import subprocess
from pathlib import Path


class Failed(Exception):
    pass


def run(command, case, environment=None):
    """Standard output of a command; Failed with its last error line otherwise."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=case.timeout, env={**os.environ, **(environment or {})}, check=False)
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

    def once(self, case):
        command = [self.program, "bench", case.model, "--prompt", case.prompt, "--gen", case.gen, "--batch", case.batch, "--json"]
        command += ["--repeat", case.repeat] if case.repeat else []
        command += ["--depth", case.depth] if case.depth else []
        command += ["--threads", case.threads] if case.threads else []
        report = json.loads(run(command + case.penstock_args.split(), case))
        self.notes = {k: v for k, v in report.items() if not k.endswith("_tokens_per_s")}
        return {phase: middle(report[f"{phase}_tokens_per_s"]) for phase in ("prefill", "decode")}


class MlxLm:
    name = "mlx-lm"

    def __init__(self, python):
        self.python, self.notes = python, {}

    def once(self, case):
        if case.depth:
            raise Failed("its benchmark has no --depth")
        model = case.mlx_model or (case.model if Path(case.model).is_dir() else None)
        if model is None:
            raise Failed("--mlx-model FOLDER is needed beside a GGUF file")
        out = run([self.python, "-m", "mlx_lm", "benchmark", "--model", model, "-p", case.prompt, "-g", case.gen, "-b", case.batch, "-n", "1"], case)
        found = re.search(r"Trial 1:\s+prompt_tps=([\d.]+), generation_tps=([\d.]+)", out)
        if not found:
            raise Failed("its output has no trial line")
        self.notes = {"model": model}
        return {"prefill": float(found[1]), "decode": float(found[2])}


def gguf_of(case):
    model = case.gguf or (case.model if case.model.endswith(".gguf") else None)
    if model is None:
        raise Failed("--gguf FILE is needed beside an MLX folder")
    return model


class LlamaCpp:
    """llama-bench; the decode speed of a batch above 1 is llama-batched-bench's, which counts the tokens of all sequences.

    Several values of --llama-flash, --llama-threads or --llama-wait are tried once, shortly, and the fastest of each phase is kept.
    """

    name = "llama.cpp"

    def __init__(self, bench, batched):
        self.bench, self.batched, self.notes, self.choices = bench, batched, {}, None

    def once(self, case):
        model = gguf_of(case)
        if case.batch > 1 and not self.batched:
            raise Failed("--llama-batched-bench PATH is needed for --batch above 1")
        phases = {"prefill": self.prefill, "decode": self.decode if case.batch == 1 else self.batched_decode}
        if self.choices is None:
            self.choices = {name: self.best(phase, model, case) for name, phase in phases.items()}
            self.notes["choices"] = {name: dict(zip(("flash", "threads", "wait"), choice)) for name, choice in self.choices.items()}
        return {name: phase(model, case, self.choices[name], case.prompt if name == "prefill" else case.gen) for name, phase in phases.items()}

    def best(self, phase, model, case):
        choices = list(itertools.product(*(option.split(",") for option in (case.llama_flash, case.llama_threads or str(case.threads), case.llama_wait))))
        if len(choices) == 1:
            return choices[0]
        speeds = {choice: phase(model, case, choice, case.prompt if phase == self.prefill else max(case.gen // 2, 8)) for choice in choices}
        return max(speeds, key=speeds.get)

    def prefill(self, model, case, choice, tokens):
        return self.bench_once(model, case, choice, "-p", tokens, "-n", 0)

    def decode(self, model, case, choice, tokens):
        return self.bench_once(model, case, choice, "-p", 0, "-n", tokens, "-d", case.depth)

    def bench_once(self, model, case, choice, *arguments):
        out = run([self.bench, "-m", model, *arguments, "-r", "1", "-o", "json", *self.flags(choice)], case, self.environment(choice))
        report = json.loads(out)[0]
        self.notes.update(build=report["build_commit"], type=report["model_type"], threads=report["n_threads"], model=model)
        return report["avg_ts"]

    def batched_decode(self, model, case, choice, tokens):
        depth = max(case.depth, 1)
        out = run([self.batched, "-m", model, "-npp", depth, "-ntg", tokens, "-npl", case.batch, "-c", case.batch * (depth + tokens),
                   "--output-format", "jsonl", *self.flags(choice)], case, self.environment(choice))
        return next(json.loads(line) for line in out.splitlines() if line.startswith("{"))["speed_tg"]

    @staticmethod
    def flags(choice):
        flash, threads, _ = choice
        return [*(["-fa", flash] if flash != "auto" else []), *(["-t", threads] if threads not in ("", "0") else [])]

    @staticmethod
    def environment(choice):
        return {} if choice[2] == "unset" else {"OMP_WAIT_POLICY": choice[2]}
