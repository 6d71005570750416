"""Starts penstock over the scripted engine (docs/dev/scripted_engine.md) and talks to it, raw and through the SDK."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("PENSTOCK_BUILD_DIR", Path(__file__).resolve().parents[2] / "build"))


def binary():
    path = BUILD / "penstock"
    if path.exists():
        return str(path)
    pytest.exit("build penstock first: cmake --preset dev && ninja -C build", returncode=2)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        return error

    @property
    def cached_tokens(self):
        return self.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    @property
    def text(self):
        choice = self.json["choices"][0]
        return choice["message"]["content"] if "message" in choice else choice["text"]


class Stream:
    """The frames of an SSE body: comments, chunks (JSON), and whether and where [DONE] came."""

    def __init__(self, body):
        self.body = body
        self.frames = [f for f in body.decode().split("\n\n") if f]
        self.comments = [f for f in self.frames if f.startswith(":")]
        self.data = [f[len("data: "):] for f in self.frames if f.startswith("data: ")]
        self.chunks = [json.loads(d) for d in self.data if d != "[DONE]"]
        self.done = self.data.count("[DONE]")

    def deltas(self, index=0):
        return [c["delta"] for chunk in self.chunks for c in chunk.get("choices", []) if c["index"] == index]

    def text(self, index=0):
        return "".join(d.get("content") or "" for d in self.deltas(index))

    def reason(self, index=0):
        reasons = [c["finish_reason"] for chunk in self.chunks for c in chunk.get("choices", []) if c["index"] == index]
        found = [r for r in reasons if r]
        assert len(found) == 1 and reasons[-1] == found[0], reasons
        return found[0]

    @property
    def receipt(self):
        return next(c["penstock"] for c in self.chunks if "penstock" in c)


class Server:
    """A server over a script; see ModelServer for one over a model."""

    def __init__(self, script, folder, arguments=(), environment=None):
        path = folder / f"script-{time.monotonic_ns()}.json"
        path.write_text(json.dumps(script))
        self.start(["--engine", f"scripted:{path}"], path.with_suffix(".log"), arguments, environment)

    def start(self, what, log_path, arguments, environment):
        self.log_path = log_path
        command = [binary(), "serve", *what]
        if "--state-dir" not in (*what, *arguments):
            # Not the user's own, and none that another server has.
            command += ["--state-dir", str(log_path.with_suffix(f".{time.monotonic_ns()}.state"))]
        if "--port" not in arguments and "--unix-socket" not in arguments:
            command += ["--port", "0"]
        self.process = subprocess.Popen(command + list(arguments), stdout=subprocess.PIPE, stderr=self.log_path.open("w"),
                                        text=True, env={**os.environ, **(environment or {})})
        self.url = ""
        for line in self.process.stdout:
            found = re.match(r"listening on (\S+)", line)
            if found:
                self.url = found.group(1)
                break
        assert self.url, f"the server did not start: {self.log_path.read_text()}"
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.host, _, port = self.url.removeprefix("http://").partition(":")
        self.port = int(port) if port.isdigit() else 0

    def connect(self, timeout=120):
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=180):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
        if isinstance(data, str):
            data = data.encode()
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        connection.close()
        return answer

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body, **kwargs):
        return self.request("POST", path, body, **kwargs)

    def chat(self, text="hi", **fields):
        body = {"messages": [{"role": "user", "content": text}], **fields}
        return self.post("/v1/chat/completions", body)

    def stream(self, text="hi", **fields):
        answer = self.chat(text, stream=True, **fields)
        assert answer.status == 200, answer.body
        return Stream(answer.body)

    def both(self, text="hi", **fields):
        """Text, finish reason and completion tokens, which must be the same streamed and whole."""
        whole = self.chat(text, **fields)
        assert whole.status == 200, whole.body
        streamed = self.stream(text, stream_options={"include_usage": True}, **fields)
        facts = (whole.text, whole.json["choices"][0]["finish_reason"], whole.json["usage"]["completion_tokens"])
        assert (streamed.text(), streamed.reason(), streamed.chunks[-1]["usage"]["completion_tokens"]) == facts
        return facts

    def open_stream(self, text="hi", **fields):
        """A socket on which a streamed answer is under way; the head is read."""
        body = json.dumps({"messages": [{"role": "user", "content": text}], "stream": True, **fields}).encode()
        connection = self.connect()
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return connection

    def metric(self, name):
        found = re.search(rf"^penstock_{name} (\d+)$", self.get("/metrics").body.decode(), re.MULTILINE)
        assert found, name
        return int(found.group(1))

    def wait_metric(self, name, value, seconds=60):
        until = time.monotonic() + seconds
        while self.metric(name) != value:
            assert time.monotonic() < until, f"{name} is {self.metric(name)}, not {value}"
            time.sleep(0.01)

    def openai(self, kind="OpenAI", **kwargs):
        openai = pytest.importorskip("openai")
        return getattr(openai, kind)(base_url=self.url + "/v1", api_key=kwargs.pop("api_key", "unused"), max_retries=0, **kwargs)

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class ModelServer(Server):
    """A server over a real model."""

    def __init__(self, model, folder, arguments=(), environment=None):
        self.start([model], folder / "model.log", arguments, environment)

    def ask(self, prompt, **fields):
        """A short greedy answer, unless the fields say otherwise."""
        answer = self.chat(prompt, **{"temperature": 0, "max_tokens": 24, **fields})
        assert answer.status == 200, answer.body
        return answer


def model_servers(folder, settings):
    """For fixtures: what starts servers over models and flags, with these settings; they are stopped at the end."""
    servers = []

    def make(*what, environment=None):
        server = ModelServer.__new__(ModelServer)  # stopped too where it does not come up
        servers.append(server)
        server.start([str(w) for w in what], folder / "model.log", settings, environment)
        return server

    yield make
    for server in servers:
        server.stop()


def receive_until(connection, what, limit=1 << 20):
    data = b""
    while what not in data:
        more = connection.recv(65536)
        assert more, f"the connection ended before {what!r}: {data!r}"
        data += more
        assert len(data) < limit
    return data


HELLO = {
    "model": "org/hello", "names": ["hello"], "context_length": 512,
    "replies": [
        {"match": "report", "report": True},
        {"match": "slow", "pieces": ["a", "b"], "delays_ms": [0, 60000]},
        {"match": "long", "pieces": ["word "], "repeat": 400},
        {"match": "empty", "pieces": []},
        {"pieces": ["Hel", "lo", ", ", "world"]},
    ],
}
