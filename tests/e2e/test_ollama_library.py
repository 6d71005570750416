"""Models that requests download, upload, create, copy and delete (OL-13), and what of it outlives the server."""
import hashlib
import json
import socket
import struct
import threading
import time
from pathlib import Path

import pytest
from model_folder import llama, write_model
from scripted_server import model_servers
from stand_in_hub import StandInHub

ollama = pytest.importorskip("ollama")

SMALL = ["--executor", "cpu", "--threads", "1", "--kv-memory-bytes", "8000000"]


@pytest.fixture
def hub():
    server = StandInHub().start()
    yield server
    server.stop()


@pytest.fixture
def servers(tmp_path):
    yield from model_servers(tmp_path, SMALL)


@pytest.fixture
def serve(servers, tmp_path, hub):
    """serve(*flags): a server over the tiny model `base`, with a store and a state of the test's own."""
    base = write_model(tmp_path / "models" / "base", llama())
    environment = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": hub.endpoint, "no_proxy": "*",
                   "PIP_INDEX_URL": hub.endpoint + "/simple"}

    def make(*flags):
        server = servers(base, *flags, "--state-dir", tmp_path / "state", environment=environment)
        server.client = ollama.Client(host=server.url)
        return server

    return make


def names(server):
    return {m.model for m in server.client.list().models}


def model_files(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}


def answers(server, model):
    return server.client.generate(model, "ab", raw=True, options={"num_predict": 3, "temperature": 0}).eval_count <= 3


def upload(server, folder):
    return {path.name: server.client.create_blob(path) for path in sorted(Path(folder).iterdir())}


def state_files(tmp_path):
    return sorted(p.relative_to(tmp_path / "state").as_posix() for p in (tmp_path / "state" / "library").rglob("*") if p.is_file())


def test_what_files_say_of_a_model_that_is_not_loaded(servers, tmp_path):
    write_model(tmp_path / "models" / "one", llama())
    server = servers("--model-dir", tmp_path / "models", "--state-dir", tmp_path / "state")
    [tag] = server.get("/api/tags").json["models"]
    size = sum(len(data) for data in model_files(tmp_path / "models" / "one").values())
    assert tag["name"] == "one:latest" and tag["size"] == size and tag["digest"] == ""
    assert tag["details"]["format"] == "safetensors" and tag["details"]["family"] == "llama" and tag["details"]["parameter_size"].endswith("K")
    shown = server.post("/api/show", {"model": "one"}).json
    assert shown["model_info"]["llama.context_length"] == 256 and shown["model_info"]["general.parameter_count"] > 1000
    assert shown["capabilities"] == ["completion"] and "m.role" in shown["template"]
    assert server.get("/api/ps").json == {"models": []}


def test_pull_tells_its_progress_and_offers_the_model(serve, hub, tmp_path):
    hub.add_repo("org/tiny", model_files(write_model(tmp_path / "made", llama())))
    server = serve()
    answer = server.post("/api/pull", {"model": "hf.co/org/tiny:latest", "insecure": True})
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert lines[0] == {"status": "pulling manifest"} and lines[-1] == {"status": "success"}
    weights = hashlib.sha256((tmp_path / "made" / "model.safetensors").read_bytes()).hexdigest()
    moved = [line for line in lines if line.get("digest") == "sha256:" + weights]
    assert moved and all(line["completed"] <= line["total"] for line in moved)
    assert names(server) == {"base:latest", "org/tiny:latest"}
    assert answers(server, "org/tiny") and answers(server, "org/tiny:latest")
    assert next(m for m in server.client.list().models if m.model == "org/tiny:latest").digest == weights
    assert server.client.pull("org/tiny").status == "success", "again costs nothing"
    server.stop()
    again = serve()
    assert names(again) == {"base:latest", "org/tiny:latest"} and answers(again, "org/tiny")
    again.client.delete("org/tiny")
    assert names(again) == {"base:latest"} and not (tmp_path / "hf/hub/models--org--tiny").exists()
    assert state_files(tmp_path) == []
    with pytest.raises(ollama.ResponseError, match="model 'org/tiny' not found"):
        again.client.delete("org/tiny")


def test_a_pull_that_fails_says_why(serve, hub):
    server = serve()
    lines = [json.loads(line) for line in server.post("/api/pull", {"model": "org/nothing"}).body.splitlines()]
    assert list(lines[-1]) == ["error"]
    whole = server.post("/api/pull", {"model": "org/nothing", "stream": False})
    assert whole.status >= 400 and list(whole.json) == ["error"]
    with pytest.raises(ollama.ResponseError):
        list(server.client.pull("org/nothing", stream=True))
    assert names(server) == {"base:latest"}


def test_SE_12_no_request_names_a_path(serve, tmp_path):
    write_model(tmp_path / "secret", llama())
    server = serve()
    for name in (str(tmp_path / "secret"), "../secret", "./secret", "~/secret", "file:///etc/passwd", "org/name@main", "a/b/c/d"):
        whole = server.post("/api/pull", {"model": name, "stream": False})
        assert whole.status == 400, (name, whole.body)
        for field in ("files", "from"):
            value = {"model.safetensors": name} if field == "files" else name
            assert server.post("/api/create", {"model": "x", field: value}).status in (400, 404), (name, field)
        assert server.post("/api/copy", {"source": "base", "destination": name}).status == 400, name
    assert names(server) == {"base:latest"}


def test_a_pull_whose_client_leaves_stops_and_goes_on_later(serve, hub, tmp_path):
    files = model_files(write_model(tmp_path / "made", llama()))
    repo = hub.add_repo("org/tiny", files, drop_after=2000, drops=10**6)
    server = serve()
    body = json.dumps({"model": "org/tiny"}).encode()
    connection = socket.create_connection((server.host, server.port))
    connection.sendall(b"POST /api/pull HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    until = time.monotonic() + 60
    while len(hub.gets("model.safetensors")) < 2:
        assert time.monotonic() < until
        time.sleep(0.02)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    count = -1
    while count != len(hub.gets("model.safetensors")):  # until it asks no more
        count = len(hub.gets("model.safetensors"))
        assert time.monotonic() < until
        time.sleep(3)
    assert count < len(files["model.safetensors"]) // 2000, "it stopped before it had all"
    repo.drops = 0
    assert server.client.pull("org/tiny").status == "success"
    assert hub.gets("model.safetensors")[-1] not in (None, "bytes=0-"), "it went on where it stopped"
    assert answers(server, "org/tiny")


def test_copies_outlive_the_server(serve, tmp_path):
    server = serve()
    server.client.copy("base", "org/mine:v2")
    server.client.copy("base:latest", "other:latest")
    assert names(server) == {"base:latest", "org/mine:v2", "other:latest"}
    assert answers(server, "org/mine:v2") and answers(server, "other")
    assert server.metric("model_loads_total") == 1, "a copy is another name"
    assert {m["id"] for m in server.get("/v1/models").json["data"]} == {"base"}
    assert server.post("/v1/completions", {"model": "other", "prompt": "a", "max_tokens": 1}).status == 200
    server.process.kill()
    server.process.wait()
    again = serve()
    assert names(again) == {"base:latest", "org/mine:v2", "other:latest"} and answers(again, "org/mine:v2")
    again.client.delete("other")
    assert names(again) == {"base:latest", "org/mine:v2"}
    for bad in ("../x", "a b", "x:", ":y", "a//b", "default"):
        assert again.post("/api/copy", {"source": "base", "destination": bad}).status == 400, bad
    assert again.post("/api/copy", {"source": "nobody", "destination": "x"}).status == 404
    answer = again.request("DELETE", "/api/delete", {"model": "base"})
    assert answer.status == 400 and answers(again, "base"), "a folder of the operator's is not removed"


def test_a_model_of_uploads(serve, tmp_path):
    made = tmp_path / "made"
    write_model(made, llama())
    server = serve("--max-body-bytes", "2048")
    files = upload(server, made)
    digest = files["model.safetensors"]
    assert server.request("HEAD", f"/api/blobs/{digest}").status == 200
    assert server.request("HEAD", "/api/blobs/sha256:" + "0" * 64).status == 404
    assert server.request("HEAD", "/api/blobs/../../etc/passwd").status in (400, 404)
    assert server.post(f"/api/blobs/{digest}", (made / "model.safetensors").read_bytes()).status == 200, "it is there already"
    statuses = [p.status for p in server.client.create("up:v1", files=files, system="be brief", parameters={"temperature": 0.0},
                                                       license="MIT", stream=True)]
    assert statuses[-1] == "success" and "writing manifest" in statuses
    assert names(server) == {"base:latest", "up:v1"} and answers(server, "up:v1")
    shown = server.post("/api/show", {"model": "up:v1"}).json
    assert shown["system"] == "be brief" and shown["license"] == "MIT" and "temperature" in shown["parameters"]
    assert next(m for m in server.client.list().models if m.model == "up:v1").digest == digest.removeprefix("sha256:")
    server.process.kill()
    server.process.wait()
    again = serve()
    assert answers(again, "up:v1")
    again.client.create("up:v1", files=files)  # made anew
    assert answers(again, "up:v1") and "system" not in again.post("/api/show", {"model": "up:v1"}).json
    again.client.delete("up:v1")
    assert names(again) == {"base:latest"} and state_files(tmp_path) == []


def test_the_async_sdk_uploads_in_chunks(serve, tmp_path):
    import asyncio
    path = tmp_path / "blob"
    path.write_bytes(bytes(range(256)) * 40000)  # 10 MB
    server = serve("--max-body-bytes", "2048")

    async def talk():
        return await ollama.AsyncClient(host=server.url).create_blob(path)

    digest = asyncio.run(talk())
    assert (tmp_path / "state/library/blobs" / digest.replace(":", "-")).read_bytes() == path.read_bytes()


def test_uploads_are_checked(serve, tmp_path):
    server = serve("--max-upload-bytes", "4096")
    zeros = "sha256:" + "0" * 64
    wrong = server.post(f"/api/blobs/{zeros}", b"not that")
    assert wrong.status == 400 and "digest" in wrong.json["error"]
    assert server.post(f"/api/blobs/{zeros}", b"x" * 5000).status == 413
    assert server.post("/api/blobs/md5:123", b"x").status == 400
    assert server.request("HEAD", f"/api/blobs/{zeros}").status == 404
    connection = socket.create_connection((server.host, server.port))
    connection.sendall(f"POST /api/blobs/{zeros} HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\nabc".encode())
    until = time.monotonic() + 60
    while not state_files(tmp_path):
        assert time.monotonic() < until
        time.sleep(0.02)
    connection.close()
    while state_files(tmp_path):  # what broke off leaves nothing
        assert time.monotonic() < until
        time.sleep(0.02)


def test_what_no_model_comes_of(serve, tmp_path):
    server = serve()
    good = server.client.create_blob(write_model(tmp_path / "made", llama()) + "/config.json")
    zeros = "sha256:" + "0" * 64
    for body, said in (({"files": {"model.gguf": zeros}}, "upload"), ({"files": {"model.gguf": good}}, "model"),
                       ({"files": {"../x.gguf": good}}, "names"), ({"files": {"x.py": good}}, "names"),
                       ({"files": {"config.json": good}}, "model"), ({"files": {"x.gguf": "nonsense"}}, "digest"),
                       ({}, "from"), ({"from": "base", "files": {"a.gguf": good}}, "both"), ({"from": "nobody"}, "not found"),
                       ({"from": "base", "template": "x"}, "template"), ({"from": "base", "adapters": {"a": zeros}}, "adapters"),
                       ({"from": "base", "quantize": "q4_K_M"}, "quantize"), ({"from": "base", "modelfile": "FROM x"}, "modelfile"),
                       ({"from": "base", "parameters": {"mirostat": 1}}, "mirostat"),
                       ({"from": "base", "parameters": {"colour": 1}}, "colour")):
        answer = server.post("/api/create", {"model": "bad", "stream": False, **body})
        assert answer.status in (400, 404) and said in answer.json["error"], (body, answer.body)
    assert names(server) == {"base:latest"}
    assert [p for p in state_files(tmp_path) if "weights" in p or "models" in p] == []


def test_a_model_made_of_another_has_its_own_words(serve):
    server = serve()
    server.client.create("terse", from_="base", system="be brief", parameters={"num_predict": 2, "temperature": 0.0})
    server.client.create("terser", from_="terse", parameters={"num_predict": 1})
    assert server.client.generate("terse", "ab").eval_count <= 2 and server.client.generate("terser", "ab").eval_count <= 1
    assert server.client.generate("terse", "ab", options={"num_predict": 3}).eval_count <= 3
    shown = server.post("/api/show", {"model": "terser"}).json
    assert shown["system"] == "be brief" and shown["details"]["parent_model"] == "base:latest"
    assert f"{'num_predict':<30} 1" in shown["parameters"] and "FROM base:latest" in shown["modelfile"]
    context = server.client.generate("terse", "ab").context
    assert bytes(t for t in context if t < 256).startswith(b"system: be brief\n")
    lines = server.post("/api/create", {"model": "base", "from": "terse"}).body.splitlines()
    assert "error" in json.loads(lines[-1]), "the model that the server was started with keeps its name"


def test_a_profile_is_no_tag(serve, tmp_path):
    (tmp_path / "profiles.json").write_text('{"cold": {"temperature": 0}}')
    server = serve("--profiles", tmp_path / "profiles.json")
    assert server.post("/api/copy", {"source": "base", "destination": "x:cold"}).status == 400
    assert server.client.generate("base:cold", "ab", options={"num_predict": 1}).done


def test_changes_at_once_leave_one_of_them(serve):
    server = serve()
    statuses = []

    def copy(i):
        statuses.append(server.post("/api/copy", {"source": "base", "destination": f"many:{i % 3}"}).status)

    threads = [threading.Thread(target=copy, args=(i,)) for i in range(12)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert statuses == [200] * 12 and names(server) == {"base:latest", "many:0", "many:1", "many:2"}
