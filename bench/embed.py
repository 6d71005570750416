#!/usr/bin/env python3
"""Texts a second of an embedding model, beside sentence-transformers on the same files and as many threads, in turns.

  bench/embed.py MODEL_FOLDER --peer-python PYTHON     PYTHON has sentence-transformers and torch

Penstock is asked over HTTP, 64 texts a request, vectors as base64; the peer in its own process with its own batches (32, sorted
by length). Prints the median of the rounds and the smallest cosine between the two.
"""
import argparse
import base64
import json
import re
import statistics
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORDS = ("river bridge sea water stone rain old new cold swim run fall near far city music paper light winter summer people "
         "question answer machine language history science number morning evening").split()
PEER = """
import json, sys, time
import torch
from sentence_transformers import SentenceTransformer
torch.set_num_threads(int(sys.argv[2]))
model = SentenceTransformer(sys.argv[1], device="cpu")
for line in sys.stdin:
    texts = json.loads(line)
    start = time.perf_counter()
    vectors = model.encode(texts, show_progress_bar=False)
    took = time.perf_counter() - start
    print(json.dumps([took, vectors[:16].tolist()]), flush=True)
"""


def texts_of(words, count):
    return [" ".join(WORDS[(i * 7 + j * (i % 11 + 1)) % len(WORDS)] for j in range(words + i % 3)) for i in range(count)]


class Penstock:
    def __init__(self, binary, model, threads):
        self.process = subprocess.Popen([binary, "serve", model, "--port", "0", "--threads", str(threads)], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.url = next(m.group(1) for m in (re.match(r"listening on (\S+)", line) for line in self.process.stdout) if m)

    def run(self, texts):
        vectors, start = [], time.perf_counter()
        for at in range(0, len(texts), 64):
            body = json.dumps({"input": texts[at:at + 64], "encoding_format": "base64", "truncate": True}).encode()
            request = urllib.request.Request(self.url + "/v1/embeddings", body, {"Content-Type": "application/json"})
            vectors += [d["embedding"] for d in json.load(urllib.request.urlopen(request))["data"]]
        took = time.perf_counter() - start
        raw = [base64.b64decode(v) for v in vectors[:16]]
        return took, [struct.unpack(f"<{len(v) // 4}f", v) for v in raw]


class Peer:
    def __init__(self, python, model, threads):
        self.process = subprocess.Popen([python, "-c", PEER, model, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)

    def run(self, texts):
        self.process.stdin.write(json.dumps(texts) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / sum(x * x for x in a) ** 0.5 / sum(y * y for y in b) ** 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--binary", default=str(ROOT / "build/penstock"))
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ours, peer = Penstock(options.binary, options.model, options.threads), Peer(options.peer_python, options.model, options.threads)
    try:
        for words, count in ((8, 512), (60, 128), (240, 48)):
            texts, rates, closest = texts_of(words, count), {"penstock": [], "peer": []}, 1.0
            for round_ in range(options.rounds + 1):
                mine, theirs = ours.run(texts), peer.run(texts)
                closest = min(closest, *(cosine(a, b) for a, b in zip(mine[1], theirs[1])))
                if round_ > 0:  # the first warms both
                    rates["penstock"].append(count / mine[0])
                    rates["peer"].append(count / theirs[0])
            ratio = statistics.median(a / b for a, b in zip(rates["penstock"], rates["peer"]))
            print(f"{words} words: penstock {statistics.median(rates['penstock']):.0f} texts/s, sentence-transformers "
                  f"{statistics.median(rates['peer']):.0f}, ratio {ratio:.2f}, cosine at least {closest:.7f}", flush=True)
    finally:
        for process in (ours.process, peer.process):
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
