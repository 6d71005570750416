#!/usr/bin/env python3
"""What of the engine's rate arrives at clients: N streams of /v1/completions at once from several processes, so that no client is
the bottleneck, beside `penstock bench --batch N` before and after. Fails below --least of it.

    python3 bench/streams.py --penstock build/penstock --model MODEL --streams 64 --processes 16 --gen 512
"""
import argparse
import multiprocessing
import os
import re
import resource
import selectors
import socket
import subprocess
import sys
import time

from load_client import Server, packet

IDLE_S = 60  # nothing arrives for so long: the server hangs


def request(number, gen):
    return packet("POST", "/v1/completions", {"prompt": f"Write about the number {number} and the sea. " * 4, "max_tokens": gen, "temperature": 0.8,
                                              "seed": number, "ignore_eos": True, "stream": True})


def read_streams(port, numbers, gen, start, results):
    """Of each stream: (time, events so far); and the processor time of this process."""
    selector, arrivals = selectors.DefaultSelector(), []
    start.wait()
    for number in numbers:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(request(number, gen))
        arrivals.append([])
        selector.register(connection, selectors.EVENT_READ, arrivals[-1])
    while selector.get_map():
        ready = selector.select(IDLE_S)
        if not ready:
            os._exit(1)
        for key, _ in ready:
            data, now = key.fileobj.recv(1 << 16), time.monotonic()
            if events := data.count(b"data: {"):
                key.data.append((now, (key.data[-1][1] if key.data else 0) + events))
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    results.put((arrivals, usage.ru_utime + usage.ru_stime))


def drive(port, options):
    start, results = multiprocessing.Event(), multiprocessing.Queue()
    shares = [range(i, options.streams, options.processes) for i in range(options.processes)]
    clients = [multiprocessing.Process(target=read_streams, args=(port, share, options.gen, start, results)) for share in shares]
    for client in clients:
        client.start()
    time.sleep(0.5)
    begin = time.monotonic()
    start.set()
    got = [results.get(timeout=600) for _ in clients]
    streams = [arrivals for share, _ in got for arrivals in share]
    if not all(streams):
        sys.exit("a stream had no answer")
    first, last = max(s[0][0] for s in streams), min(s[-1][0] for s in streams)
    if last <= first:
        sys.exit("the streams never decoded all at once: ask for more --gen")
    end = max(s[-1][0] for s in streams)
    before = [max(n for at, n in s if at <= first) if s[0][0] <= first else 0 for s in streams]
    inside = sum(max(n for at, n in s if at <= last) for s in streams) - sum(before)
    tokens = options.gen * options.streams
    scale = tokens / sum(s[-1][1] for s in streams)  # half a character gives no event
    return inside * scale / (last - first), tokens / (end - begin), max(cpu for _, cpu in got) / (end - begin)


def engine_rate(options):
    command = [options.penstock, "bench", options.model, "--batch", str(options.streams), "--prompt", "40", "--gen", str(options.gen), "--repeat", "3"]
    text = subprocess.run(command + options.args.split(), capture_output=True, text=True, check=True).stdout
    return float(re.search(r"^decode .* ([\d.]+) tokens/s", text, re.M).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default="build/penstock")
    parser.add_argument("--model", required=True)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--gen", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least", type=float, default=0.9)
    parser.add_argument("--args", default="", help="more arguments for both, for example \"--executor cuda\"")
    options = parser.parse_args()
    engine = [engine_rate(options)]
    rates = []
    with Server(options.penstock, options.model, ["--max-num-seqs", options.streams, "--context-length", options.gen + 256, *options.args.split()]) as server:
        for _ in range(options.rounds):
            decode, whole, client = drive(server.port, options)
            rates.append(decode)
            print(f"{decode:.0f} tokens/s while all decode, {whole:.0f} with start and end; a client process took {client * 100:.0f} % of a core at most", flush=True)
    engine.append(engine_rate(options))
    ratio = sorted(rates)[len(rates) // 2] / (sum(engine) / len(engine))
    print(f"the engine alone {engine[0]:.0f} and {engine[1]:.0f} tokens/s: {ratio * 100:.1f} % arrive")
    sys.exit(ratio < options.least)


if __name__ == "__main__":
    main()
