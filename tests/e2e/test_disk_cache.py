"""The disk cache and sessions over a real socket and real weights: answers after a restart are those of a cold run, parked sessions survive a kill, damage is never served."""
import os
import signal
import subprocess
import time

import pytest
from scripted_server import BUILD, ModelServer, Server

pytestmark = pytest.mark.skipif(not (BUILD / "penstock").exists(), reason="build/penstock is not built")
STORY = "The sea was calm and the ship went on. " * 60
MODEL = os.environ.get("PENSTOCK_TEST_MODEL", "smollm2")


class Servers:
    """Servers one after the other on one folder."""

    def __init__(self, tmp_path):
        self.tmp_path = tmp_path
        self.folder = tmp_path / "disk"
        self.server = None

    def start(self, *arguments):
        self.stop()
        self.server = ModelServer(MODEL, self.tmp_path, ["--disk-cache-dir", str(self.folder), *arguments])
        return self.server

    def kill(self):
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait()
        self.server = None

    def stop(self):
        if self.server is not None:
            self.server.stop()
        self.server = None

    def files(self):
        return sorted((self.folder / "blocks").rglob("*.kv"))


@pytest.fixture
def servers(tmp_path):
    servers = Servers(tmp_path)
    yield servers
    servers.stop()


def size_of(file):
    """Bytes of a file that the server may remove meanwhile."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def disk(server):
    return server.get("/v1/cache/stats").json["disk"]


def test_a_restart_goes_on_where_the_last_server_was(servers):
    server = servers.start()
    cold = server.ask(STORY + "Why?")
    drawn = server.ask(STORY + "Why?", temperature=1, seed=3)
    assert cold.cached_tokens == 0
    server = servers.start()
    warm = server.ask(STORY + "Why?")
    tokens = warm.json["usage"]["prompt_tokens"]
    assert warm.text == cold.text
    assert warm.cached_tokens == (tokens - 1) // 64 * 64
    assert server.ask(STORY + "Why?", temperature=1, seed=3).text == drawn.text
    assert disk(server)["restored"] == tokens // 64 and disk(server)["corrupt"] == 0
    assert server.metric("disk_cache_restored_total") == disk(server)["restored"]
    other = server.ask(STORY + "Why?", cache_salt="another")
    assert other.cached_tokens == 0 and other.text == cold.text


def test_another_precision_finds_nothing(servers):
    servers.start().ask(STORY + "Why?")
    assert servers.start("--exact").ask(STORY + "Why?").cached_tokens == 0


def test_PC_08_damage_is_never_served(servers):
    cold = servers.start().ask(STORY + "Why?")
    servers.stop()
    files = servers.files()
    assert len(files) >= 8
    for file in files[::3]:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    files[1].write_bytes(files[1].read_bytes()[:-100])
    server = servers.start()
    warm = server.ask(STORY + "Why?")
    assert warm.text == cold.text
    assert 1 <= disk(server)["corrupt"] <= len(files[::3]) + 1
    assert server.ask(STORY + "Why?").text == cold.text


def test_the_folder_is_bounded(servers):
    server = servers.start("--disk-cache-bytes", "8000000")
    for i in range(6):
        server.ask(f"Story {i}. " + STORY, max_tokens=1)
        assert sum(size_of(file) for file in servers.files()) <= 8000000
    deadline = time.monotonic() + 30
    while disk(server)["evicted"] == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert disk(server)["evicted"] > 0
    assert disk(server)["bytes"] <= 8000000


def test_a_parked_session_survives_a_kill(servers):
    server = servers.start()
    turn = [{"role": "user", "content": STORY + "Say hello."}]
    body = {"model": "default", "messages": turn, "temperature": 0, "max_tokens": 20, "session_id": "alice/1"}
    first = server.post("/v1/chat/completions", body).json
    name = "/v1/sessions/alice%2F1"
    session = server.get(name).json
    total = first["usage"]["total_tokens"]
    assert session["id"] == "alice/1" and session["state"] == "live" and session["tokens"] in (total, total - 1)
    parked = server.post(name + "/park", {})
    assert parked.status == 200, parked.body
    assert parked.json["state"] == "parked" and parked.json["memory_tokens"] == 0
    assert parked.json["disk_tokens"] >= (total - 2) // 64 * 64 > 0
    servers.kill()

    server = servers.start()
    listed = server.get("/v1/sessions").json["data"]
    assert [(s["id"], s["state"], s["tokens"]) for s in listed] == [("alice/1", "parked", session["tokens"])]
    assert server.get(name).json["disk_tokens"] == parked.json["disk_tokens"]
    resumed = server.post(name + "/resume", {}).json
    assert resumed["memory_tokens"] == parked.json["disk_tokens"] and resumed["state"] == "live"
    assert STORY.strip() in server.get(name + "/context").json["text"]
    turn += [first["choices"][0]["message"], {"role": "user", "content": "And now goodbye."}]
    second = server.post("/v1/chat/completions", {**body, "messages": turn}).json
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= parked.json["disk_tokens"]
    cold = server.post("/v1/chat/completions", {**body, "messages": turn, "cache_prompt": False}).json
    assert cold["choices"] == second["choices"]


def test_sessions_are_pinned_and_deleted(servers):
    server = servers.start("--disk-cache-bytes", "25000000")
    server.ask("Keep this. " + STORY, session_id="kept")
    pinned = server.post("/v1/sessions/kept/pin", {"ttl_ms": 3600000}).json
    assert abs(pinned["pinned_until"] - time.time() - 3600) < 60
    server.post("/v1/sessions/kept/park", {})
    for i in range(4):
        server.ask(f"Story {i}. " + STORY, max_tokens=1)
    assert server.get("/v1/sessions/kept").json["disk_tokens"] > 500
    assert server.post("/v1/sessions/kept/unpin", {}).json["pinned_until"] is None
    server.ask("Keep this. " + STORY + "More.", session_id="other")
    assert server.request("DELETE", "/v1/sessions/kept").status == 200
    assert server.get("/v1/sessions/kept").status == 404
    assert server.get("/v1/sessions/other").json["memory_tokens"] > 500, "what both had stays"
    assert server.post("/v1/sessions/other/prefetch", {}).status == 202
    assert server.post("/v1/sessions/other/pin", {"ttl_ms": 0}).status == 400
    assert server.post("/v1/sessions/none/park", {}).status == 404


def test_PC_17_stopping_writes_what_was_computed(servers):
    server = servers.start()
    server.ask(STORY + "Why?", max_tokens=1)
    start = time.monotonic()
    servers.stop()
    assert time.monotonic() - start < 60
    assert len(servers.files()) >= 8


def test_one_server_for_a_folder(servers):
    servers.start()
    second = subprocess.run(
        [BUILD / "penstock", "serve", MODEL, "--port", "0", "--disk-cache-dir", servers.folder], capture_output=True, text=True, timeout=120)
    assert second.returncode != 0
    assert "another process uses it" in second.stderr


def test_without_a_disk_sessions_end_with_the_process(tmp_path):
    server = Server({"replies": [{"pieces": ["a"]}]}, tmp_path)
    try:
        assert server.chat("hi", session_id="s").status == 200
        assert [s["id"] for s in server.get("/v1/sessions").json["data"]] == ["s"]
        park = server.post("/v1/sessions/s/pin", {})
        assert park.status == 400 and b"disk-cache-dir" in park.body
        assert server.get("/v1/cache/stats").json["disk"] is None
        assert server.chat("hi", session_id="x" * 300).status == 400
    finally:
        server.stop()
