"""What a server may take of memory: models and requests that do not fit are refused with numbers, and what is not needed any more is given back."""
import json
import os
import re
import socket
import statistics
import subprocess
import time

import pytest
from model_folder import llama, write_model
from scripted_server import model_servers, receive_until

MB = 1 << 20
# 2 kB of keys and values for each token.
FAT = {"num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 64}
CPU = ["--executor", "cpu", "--threads", "1"]


@pytest.fixture
def serve(tmp_path):
    yield from model_servers(tmp_path, CPU)


def resident(server):
    """Pages of files are not counted: the system takes them back."""
    pages = [int(field) for field in open(f"/proc/{server.process.pid}/statm").read().split()]
    return (pages[1] - pages[2]) * os.sysconf("SC_PAGE_SIZE")


def ask(server, prompt="ab", max_tokens=3, **fields):
    return server.post("/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, **fields})


def guard(server):
    return server.get("/v1/status").json["memory"]["guard"]


def test_MM_02_a_model_that_does_not_fit_is_refused_with_numbers(serve, tmp_path):
    """And MM-09: the next request that fits is served."""
    folder = tmp_path / "models"
    write_model(folder / "large", llama(**FAT, max_position_embeddings=262144))
    write_model(folder / "small", llama())
    server = serve("--model-dir", folder, "--memory-guard", "custom", "--memory-limit", "400MB", "--max-num-seqs", 2)
    answer = ask(server, model="large")
    assert answer.status == 503 and answer.error["code"] == "unavailable" and 1 <= int(answer.headers["retry-after"]) <= 60
    words = answer.error["message"]
    needed, free, limit = (int(re.search(pattern, words).group(1)) for pattern in (r"expected (\d+) MB for large", r"got (\d+) MB free", r"of the (\d+) MB that memory_guard custom allows"))
    assert needed > free and limit == 381, words
    context = int(re.search(r"a --context-length of (\d+) would fit", words).group(1))
    assert resident(server) < 200 * MB, "it was refused before anything was allocated"
    assert ask(server, model="small").status == 200
    assert ask(server, model="large").status == 503
    server.stop()
    assert ask(serve("--model-dir", folder, "--memory-guard", "custom", "--memory-limit", "400MB", "--max-num-seqs", 2, "--context-length", context), model="large").status == 200


def test_the_program_says_it_too(binary, tmp_path):
    model = write_model(tmp_path / "large", llama(**FAT, max_position_embeddings=1 << 20))
    out = subprocess.run([binary, "generate", model, "hi", "--memory-guard", "custom", "--memory-limit", "500MB", *CPU], capture_output=True, text=True, check=False)
    assert out.returncode == 1 and re.search(r"expected \d+ MB for .*--context-length of \d+ would fit", out.stderr), out.stderr
    for arguments in (["--memory-limit", "1G"], ["--memory-guard", "custom"], ["--memory-guard", "custom", "--memory-limit", "much"]):
        out = subprocess.run([binary, "generate", model, "hi", *arguments], capture_output=True, text=True, check=False)
        assert out.returncode != 0 and "memory_guard custom" in out.stderr, (arguments, out.stderr)


def test_status_tells_plan_and_measure(serve, tmp_path):
    server = serve(write_model(tmp_path / "model", llama(**FAT, max_position_embeddings=32768)), "--max-num-seqs", 4)
    status = server.get("/v1/status").json
    memory, model = status["memory"], status["models"][0]["memory"]
    assert memory["guard"]["tier"] == "balanced" and memory["guard"]["state"] == "calm"
    assert memory["guard"]["limit_bytes"] == pytest.approx(0.7 * (memory["available_bytes"] + memory["resident_bytes"]), rel=0.2)
    assert memory["guard"]["planned_bytes"] == model["planned_bytes"] == model["weight_bytes"] + model["cache_bytes"] + model["buffer_bytes"]
    assert model["cache_bytes"] == 4 * 32768 * 2048 and not model["on_device"]
    assert model["planned_bytes"] <= model["measured_allocated_bytes"] <= model["planned_bytes"] + 256 * MB
    assert 0 < model["measured_resident_bytes"] < model["planned_bytes"]
    assert memory["resident_bytes"] <= memory["peak_resident_bytes"]
    for name in ("memory_limit_bytes", "memory_planned_bytes"):
        assert server.metric(name) == memory["guard"][name.removeprefix("memory_")]
    assert [server.metric("memory_" + n) for n in ("pressure", "refused_total", "unloads_total")] == [0, 0, 0]


def test_MM_09_requests_are_refused_while_memory_is_short_and_taken_again(start):
    large = 24 * MB
    server = start({"context_length": 1 << 26, "max_num_seqs": 64, "replies": [{"match": "slow", "pieces": ["a", "b"], "delays_ms": [0, 600000]}, {"pieces": ["fine"]}]},
                   "--memory-guard", "custom", "--memory-limit", "300MB", "--max-body-bytes", str(64 * MB))
    assert server.chat().status == 200
    waiting, refused = [], None
    for _ in range(12):
        connection = server.connect()
        body = json.dumps({"prompt": "slow " + "x" * large, "stream": True}).encode()
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        waiting.append(connection)
        until = time.monotonic() + 5
        while refused is None and time.monotonic() < until:
            answer = server.chat()
            refused = answer if answer.status != 200 else None
            if guard(server)["state"] == "calm":
                break
        if refused:
            break
    assert refused is not None and refused.status == 503, guard(server)
    assert re.search(r"at most 286 MB of resident memory.*got \d+ MB", refused.error["message"]) and int(refused.headers["retry-after"]) >= 1
    assert guard(server)["refused"] >= 1 and server.metric("memory_refused_total") >= 1 and guard(server)["evictions"] >= 1
    assert server.get("/health").status == 200 and server.get("/v1/models").status == 200
    for connection in waiting:
        connection.close()
    until = time.monotonic() + 60
    while server.chat().status != 200:
        assert time.monotonic() < until, guard(server)
        time.sleep(0.05)
    assert guard(server)["state"] != "refusing"


def test_MM_03_a_long_prompt_does_not_starve_what_comes_after(serve, tmp_path):
    """Its blocks give way, and their memory goes back when the cache is cleared."""
    server = serve(write_model(tmp_path / "model", llama(**FAT, max_position_embeddings=32768)), "--max-num-seqs", 1)

    def seconds():
        return statistics.median(ask(server, f"{n}: ab", 200).json["penstock"]["decode_ms"] for n in range(5))

    before, start = seconds(), resident(server)
    assert ask(server, "x" * 26700).status == 200
    assert resident(server) > start + 40 * MB
    assert seconds() < 3 * before
    for letter in "yz":
        assert ask(server, letter * 26700).status == 200
    assert server.get("/v1/cache/stats").json["blocks"]["used"] == 0
    assert resident(server) < start + 90 * MB, "one context is all the cache there is"
    server.post("/v1/cache/clear", {})
    until = time.monotonic() + 20
    while resident(server) > start + 12 * MB:
        assert time.monotonic() < until, (resident(server) - start) / MB
        time.sleep(0.05)
    answer = ask(server, "x" * 26700)
    assert answer.status == 200 and answer.json["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_MM_01_a_generation_of_20000_tokens_holds_nothing(serve, tmp_path):
    server = serve(write_model(tmp_path / "model", llama(max_position_embeddings=32768)), "--max-num-seqs", 1)
    folder = f"/proc/{server.process.pid}"
    ask(server)
    handles = len(os.listdir(folder + "/fd")), len(os.listdir(folder + "/task"))
    connection = server.connect()
    body = json.dumps({"prompt": "ab", "max_tokens": 20000, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}).encode()
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    receive_until(connection, b"data: {")
    during = len(os.listdir(folder + "/fd")), len(os.listdir(folder + "/task"))
    last, until = b"", time.monotonic() + 600
    while True:
        more = connection.recv(1 << 16)
        if not more:
            break
        last = (last + more)[-4096:]
        assert time.monotonic() < until
    assert b'"completion_tokens":20000' in last and b"[DONE]" in last, last[-600:]
    assert (during[0] - handles[0], during[1] - handles[1]) == (1, 0), "the connection, no more"
    until = time.monotonic() + 20
    while (len(os.listdir(folder + "/fd")), len(os.listdir(folder + "/task"))) != handles:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_MM_04_and_MM_05_ended_requests_leave_nothing(serve, tmp_path):
    server = serve(write_model(tmp_path / "model", llama(**FAT, max_position_embeddings=4096)), "--max-num-seqs", 4)

    def some(count):
        for number in range(count):
            assert ask(server, f"{number % 7} " * 40, 8, n=1 + number % 2).status == 200

    some(200)
    before = resident(server)
    some(500)
    assert resident(server) < 1.02 * before + MB, (before, resident(server))


def test_MM_12_uploads_that_fail_leave_nothing(start):
    server = start({"replies": [{"pieces": ["a"]}]})
    bad = b'{"messages": [{"role": "user", "content": "' + b"x" * int(7.9 * MB)

    def some(count):
        for number in range(count):
            if number % 4 == 3:  # gone before the end
                with socket.create_connection((server.host, server.port)) as connection:
                    connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n\r\n" + bad[:4000000])
                continue
            assert server.post("/v1/chat/completions", bad).status == 400

    some(8)
    before = resident(server)
    some(12)
    assert resident(server) < before + 12 * MB, (before, resident(server))
    assert server.chat().status == 200
