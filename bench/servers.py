"""Servers under the same clients: N streams of /v1/completions at once over loopback, each with its own prompt, greedy, end tokens ignored.

The speed of `decode` is the tokens of all streams in the time in which every one of them was decoding; that of `whole` is all tokens over
the time from the first request to the last token.
"""
import http.client
import json
import os
import socket
import subprocess
import threading
import time

from peers import Failed, gguf_of

WORDS = "the river of stone and light under open sky where people walk with slow careful hands to build an old mill near water".split()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def prompt_of(client, turn, words):
    """Ordinary words, one token each in most vocabularies; differs between clients and between rounds, so that no cache of prompts helps."""
    return " ".join(WORDS[(turn * 7 + client * 5 + i * (client % 3 + 1) + i // 11) % len(WORDS)] for i in range(words))


class Stream(threading.Thread):
    """One client. `arrivals` are the times of its chunks, `tokens` what the server counted."""

    def __init__(self, port, prompt, gen, barrier):
        super().__init__()
        self.port, self.barrier = port, barrier
        self.body = json.dumps({"model": "default", "prompt": prompt, "max_tokens": gen, "temperature": 0, "ignore_eos": True, "stream": True,
                                "stream_options": {"include_usage": True}})
        self.arrivals, self.tokens, self.error, self.started = [], 0, None, 0.0

    def run(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            connection.connect()
            self.barrier.wait()
            self.started = time.monotonic()
            connection.request("POST", "/v1/completions", self.body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise Failed(f"status {answer.status}: {answer.read(300).decode(errors='replace')}")
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                chunk = json.loads(line[6:])
                if any(choice.get("text") for choice in chunk.get("choices", [])):
                    self.arrivals.append(time.monotonic())
                self.tokens = (chunk.get("usage") or {}).get("completion_tokens", self.tokens)
        except Exception as error:  # noqa: BLE001 - told by the caller
            self.error = error


def drive(port, prompts, gen):
    barrier = threading.Barrier(len(prompts))
    streams = [Stream(port, prompt, gen, barrier) for prompt in prompts]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.join()
    for stream in streams:
        if stream.error or not stream.arrivals or not stream.tokens:
            raise Failed(f"a stream ended early: {stream.error or 'no text or no usage'}")
    first, last = max(s.arrivals[0] for s in streams), min(s.arrivals[-1] for s in streams)
    tokens, chunks = sum(s.tokens for s in streams), sum(len(s.arrivals) for s in streams)
    inside = sum(first < at <= last for s in streams for at in s.arrivals)
    if last <= first or inside == 0:
        raise Failed("the streams never decoded all at once: ask for more --gen")
    whole = max(s.arrivals[-1] for s in streams) - min(s.started for s in streams)
    return {"decode": inside / (last - first) * tokens / chunks, "whole": tokens / whole}


class Server:
    """A server process that lives from the first round of a case to its end."""

    def __init__(self, program):
        self.program, self.notes, self.process, self.port, self.turn = program, {}, None, 0, 0

    def once(self, case):
        if self.process is None:
            self.start(case)
            self.speeds(case)  # touches every weight
        return self.speeds(case)

    def speeds(self, case):
        self.turn += 1
        return drive(self.port, [prompt_of(i, self.turn, case.prompt) for i in range(case.clients)], case.gen)

    def start(self, case):
        self.port = free_port()
        command = list(map(str, self.command(case)))
        self.notes["command"] = " ".join(command[1:])
        environment = {**os.environ, **self.environment(case)}
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        self.close()
        raise Failed("the server did not come up")

    def close(self):
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


class PenstockServer(Server):
    name = "penstock"

    def command(self, case):
        context = case.prompt * 2 + case.gen + 64
        threads = ["--threads", case.threads] if case.threads else []
        return [self.program, "serve", case.model, "--port", self.port, "--max-num-seqs", case.clients, "--context-length", context, "--log-level", "error", *threads]

    def environment(self, case):
        return {}


class LlamaServer(Server):
    name = "llama.cpp"

    def command(self, case):
        context = case.clients * (case.prompt * 2 + case.gen + 64)
        flash, threads = case.llama_flash.split(",")[0], (case.llama_threads or str(case.threads)).split(",")[0]
        return [self.program, "-m", gguf_of(case), "--port", self.port, "-np", case.clients, "-c", context, "--no-webui",
                *(["-fa", {"1": "on", "0": "off"}.get(flash, flash)] if flash != "auto" else []), *(["-t", threads] if threads not in ("", "0") else [])]

    def environment(self, case):
        wait = case.llama_wait.split(",")[0]
        self.notes["OMP_WAIT_POLICY"] = wait
        return {} if wait == "unset" else {"OMP_WAIT_POLICY": wait}
