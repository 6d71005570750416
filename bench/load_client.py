"""A server to be loaded, and an HTTP client on asyncio that is light enough for a thousand connections. Loopback only."""
import asyncio
import contextlib
import http.client
import json
import re
import resource
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from process import resident_bytes
from servers import free_port

LONGEST_S = 120  # for one answer; what takes longer counts as lost


def raise_file_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard == resource.RLIM_INFINITY else max(soft, hard), hard))


class Server:
    """`penstock serve` over a script (a dict) or a model (a name), ended with the context."""

    def __init__(self, penstock, what, arguments=()):
        self.folder = tempfile.TemporaryDirectory(prefix="penstock-load-")
        self.port = free_port()
        if isinstance(what, dict):
            script = Path(self.folder.name) / "script.json"
            script.write_text(json.dumps(what), encoding="utf-8")
            what = ["--engine", f"scripted:{script}"]
        else:
            what = [what]
        self.log = Path(self.folder.name) / "log"
        command = [penstock, "serve", *what, "--port", str(self.port), "--log-level", "error", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log.open("w"))

    def __enter__(self):
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return self
            time.sleep(0.05)
        self.__exit__()
        raise RuntimeError("the server did not come up")

    def __exit__(self, *_):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    @property
    def pid(self):
        return self.process.pid

    def resident(self):
        return resident_bytes(self.pid)


def packet(method, path, body=None, close=True):
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    return (head + ("Connection: close\r\n\r\n" if close else "\r\n")).encode() + data


def chat(text="hi", **fields):
    return packet("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **fields})


class Answer:
    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if lines[0].startswith("HTTP/1.1 ") else 0
        self.headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        if self.headers.get("transfer-encoding") == "chunked":
            self.body = unchunked(self.body)

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def whole(self):
        """Whether nothing is missing of it."""
        if self.body is None or not self.status:
            return False
        if "text/event-stream" in self.headers.get("content-type", ""):
            return self.body.endswith(b"data: [DONE]\n\n")
        return len(self.body) == int(self.headers.get("content-length", -1))


def unchunked(data):
    """The body of a chunked answer, or nothing where its end is missing."""
    parts = []
    while True:
        size, found, data = data.partition(b"\r\n")
        with contextlib.suppress(ValueError):
            length = int(size, 16)
            if found and length == 0:
                return b"".join(parts)
            if found and len(data) >= length + 2:
                parts.append(data[:length])
                data = data[length + 2:]
                continue
        return None


class Ask:
    """One request on a connection of its own, on a bare socket: asyncio's streams cost several times the processor time, which a server on the same cores lacks."""

    def __init__(self, port, request):
        self.loop, self.unsent, self.parts = asyncio.get_running_loop(), request, []
        self.done = self.loop.create_future()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.late = self.loop.call_later(LONGEST_S, self.end, TimeoutError(f"no answer in {LONGEST_S} s"))
        try:
            self.socket.connect(("127.0.0.1", port))
        except BlockingIOError:
            pass
        except OSError as error:
            return self.end(error)
        self.loop.add_reader(self.socket, self.read)
        self.write()

    def write(self):
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent):]
        except BlockingIOError:
            pass
        except OSError as error:
            return self.end(error)
        if self.unsent:
            self.loop.add_writer(self.socket, self.write)
        else:
            self.loop.remove_writer(self.socket)

    def read(self):
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError as error:
            return self.end(error)
        if data:
            self.parts.append(data)
        else:
            self.end(None)

    def end(self, error):
        self.late.cancel()
        self.loop.remove_reader(self.socket)
        self.loop.remove_writer(self.socket)
        self.socket.close()
        if self.done.done():
            return
        if error:
            self.done.set_exception(error)
        else:
            self.done.set_result(Answer(b"".join(self.parts)))


async def ask(port, request):
    """The answer to one request. Raises OSError or TimeoutError where none came."""
    running = Ask(port, request)
    try:
        return await running.done
    finally:
        if not running.done.done() or running.done.cancelled():
            running.end(None)


async def leave(port, request, how, after_s=0.0, after_bytes=0):
    """Sends a request and leaves, after a time or when so much of the answer has come: by reset, close or half-close. The bytes that came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = b""

    async def read():
        nonlocal data
        while len(data) < (after_bytes or 1 << 30):
            more = await reader.read(65536)
            if not more:
                return
            data += more

    try:
        writer.write(request)
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError, OSError):
            await asyncio.wait_for(read(), after_s if after_s else LONGEST_S)
        if how == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "half-close":
            with contextlib.suppress(OSError):
                writer.write_eof()
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError, OSError):
                await asyncio.wait_for(reader.read(-1), LONGEST_S)
    finally:
        writer.close()
    return data


async def metric(port, name):
    """The sum over all labels."""
    page = (await ask(port, packet("GET", "/metrics"))).body.decode()
    return sum(float(value) for value in re.findall(rf"^penstock_{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE))


async def wait_idle(port, longest_s=LONGEST_S):
    """Until no request and no sequence runs; false when that takes too long."""
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline:
        if not any([await metric(port, n) for n in ("requests_running", "sequences_running", "sequences_waiting")]):
            return True
        await asyncio.sleep(0.05)
    return False
