#!/usr/bin/env python3
"""Decoding while another program keeps a core busy, beside decoding alone; and what a server without work costs.

  contention.py --penstock build/penstock --model MODEL [--rounds 3] [--gen 64] [--peer "LLAMA_BENCH -m MODEL.gguf -p 0 -n 64 -r 1 -o json"]

Quiet and busy runs alternate. The busy process is one that never sleeps, pinned to the first core that we may use. Exit status 1 where decoding
keeps less than 65 % of its quiet rate, where the logits differ, or where the idle server takes more than 1 % of a core.
"""
import argparse
import contextlib
import http.client
import json
import os
import shlex
import statistics
import subprocess
import sys
import time

from process import processor_seconds
from servers import free_port

LEAST_SHARE, MOST_IDLE_SHARE = 0.65, 0.01


@contextlib.contextmanager
def busy(core):
    process = subprocess.Popen([sys.executable, "-c", "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass", str(core)],
                               stdout=subprocess.PIPE)
    process.stdout.readline()
    try:
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def output(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def ours(options):
    report = json.loads(output([options.penstock, "bench", options.model, "--prompt", 64, "--gen", options.gen, "--repeat", options.repeat, "--json"]))
    return report["decode_tokens_per_s"]["median"], report["logits_hash"]


def peer(options):
    return json.loads(output(shlex.split(options.peer)))[0]["avg_ts"], None


def rates(measure, options):
    core = min(os.sched_getaffinity(0))
    quiet, crowded, hashes = [], [], set()
    for number in range(options.rounds):
        for crowd in (False, True) if number % 2 == 0 else (True, False):
            with busy(core) if crowd else contextlib.nullcontext():
                speed, logits = measure(options)
            (crowded if crowd else quiet).append(speed)
            hashes.add(logits)
    return {"quiet": statistics.median(quiet), "busy": statistics.median(crowded), "share": statistics.median(crowded) / statistics.median(quiet),
            "all_quiet": quiet, "all_busy": crowded, "logits_hashes": sorted(filter(None, hashes))}


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def idle_share(options):
    """Processor time of a server that has answered once and has nothing to do, as a share of one core."""
    port = free_port()
    server = subprocess.Popen([options.penstock, "serve", options.model, "--port", str(port), "--log-level", "error"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(3000):
            with contextlib.suppress(OSError):
                if ask(port, "GET", "/health") == 200:
                    break
            if server.poll() is not None:
                sys.exit("the server ended before it was asked anything")
            time.sleep(0.1)
        status = ask(port, "POST", "/v1/completions", json.dumps({"model": "default", "prompt": "One", "max_tokens": 8}))
        if status != 200:
            sys.exit(f"the server answered {status}")
        time.sleep(0.5)
        start, before = time.monotonic(), processor_seconds(server.pid)
        time.sleep(options.idle_seconds)
        return (processor_seconds(server.pid) - before) / (time.monotonic() - start)
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer", help="a command of llama-bench that prints JSON, for its share")
    for name, default in (("rounds", 3), ("gen", 64), ("repeat", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--idle-seconds", type=float, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = {"penstock": rates(ours, options)}
    if options.peer:
        report["peer"] = rates(peer, options)
    report["idle_share"] = idle_share(options)
    own = report["penstock"]
    missed = []
    if own["share"] < LEAST_SHARE:
        missed.append(f"decoding keeps {100 * own['share']:.0f} % of its quiet rate")
    if len(own["logits_hashes"]) != 1:
        missed.append(f"the logits differ: {own['logits_hashes']}")
    if report["idle_share"] > MOST_IDLE_SHARE:
        missed.append(f"an idle server takes {100 * report['idle_share']:.1f} % of a core")
    report["missed"] = missed
    if options.json:
        print(json.dumps(report))
    else:
        for name in ("penstock", "peer"):
            if name in report:
                r = report[name]
                print(f"{name}: {r['quiet']:.1f} tokens/s alone, {r['busy']:.1f} beside a busy process: {100 * r['share']:.0f} % {' '.join(r['logits_hashes'])}")
        print(f"idle server: {100 * report['idle_share']:.2f} % of a core")
        for line in missed:
            print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
