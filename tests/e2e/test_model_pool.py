"""Several models in one server: loaded when they are named, unloaded for room, for idleness and when told."""
import json
import subprocess
import threading
import time

import pytest
from model_folder import gemma3, llama, write_model
from scripted_server import Server, binary, model_servers, receive_until

SMALL = ["--executor", "cpu", "--threads", "1", "--kv-memory-bytes", "8000000"]


@pytest.fixture
def folders(tmp_path):
    """Two models that serve and, beside them, what is none."""
    folder = tmp_path / "models"
    write_model(folder / "one", llama())
    write_model(folder / "two", gemma3())
    (folder / "notes").mkdir()
    (folder / "readme.txt").write_text("no model")
    return folder


@pytest.fixture
def serve(tmp_path):
    yield from model_servers(tmp_path, SMALL)


def ask(server, model, **fields):
    return server.post("/v1/completions", {"prompt": "ab", "max_tokens": 3, "model": model, "ignore_eos": True, **fields})


def loaded(server):
    return {m["id"] for m in server.get("/v1/models").json["data"] if m["loaded"]}


def wait_loaded(server, names, seconds=60):
    until = time.monotonic() + seconds
    while loaded(server) != names:
        assert time.monotonic() < until, loaded(server)
        time.sleep(0.02)


def test_a_folder_of_models_is_listed_and_loaded_on_demand(serve, folders):
    server = serve("--model-dir", folders)
    models = {m["id"]: m for m in server.get("/v1/models").json["data"]}
    assert set(models) == {"one", "two"} and loaded(server) == set()
    assert models["one"]["context_window"] is None and models["one"]["penstock"]["family"] is None
    assert server.get("/readyz").status == 200
    for name in ("two", "one", str(folders / "two")):
        answer = ask(server, name)
        assert answer.status == 200 and answer.json["usage"]["completion_tokens"] == 3, answer.body
        assert answer.json["model"] == name.rsplit("/", 1)[-1]
    assert loaded(server) == {"one", "two"}
    assert server.get("/v1/models/two").json["penstock"]["family"] == "gemma3"
    assert server.get("/v1/models/one").json["context_window"] == 256
    assert ask(server, "three").status == 404 and ask(server, "three").error["code"] == "model_not_found"
    assert server.metric("model_loads_total") == 2
    assert server.metric("completion_tokens_total") == 9


def test_the_first_named_model_is_loaded_before_the_server_listens(serve, folders):
    server = serve(folders / "two", folders / "one")
    assert loaded(server) == {"two"}
    assert server.get("/health").json["model_name"] == "two" and server.get("/health").json["model_loaded"] is True
    assert ask(server, "default").json["model"] == "two"
    assert ask(server, "one").json["model"] == "one"


def test_many_requests_at_once_load_a_model_once(serve, folders):
    server = serve("--model-dir", folders)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(server, "two").status)) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert answers == [200] * 8
    assert server.metric("model_loads_total") == 1


def test_room_for_one_model_is_shared(serve, folders):
    server = serve("--model-dir", folders, "--max-loaded-models", "1")
    for name in ("one", "two", "one"):
        assert ask(server, name).status == 200
        assert loaded(server) == {name}
    assert server.metric("model_loads_total") == 3
    assert server.metric("completion_tokens_total") == 9
    assert server.metric("requests_processed_total") == 3


def test_a_model_in_use_is_not_unloaded_for_another(serve, folders):
    server = serve("--model-dir", folders, "--max-loaded-models", "1")
    connection = server.open_stream("x", model="one", ignore_eos=True, max_tokens=200)
    receive_until(connection, b"data: ")
    other = ask(server, "two")
    assert other.status == 200, "it waited for room"
    assert b"[DONE]" in receive_until(connection, b"[DONE]"), "and the first went on to its end"


def test_load_pin_unload(serve, folders):
    server = serve("--model-dir", folders, "--max-loaded-models", "1")
    assert server.post("/v1/models/load", {"model": "one", "pin": True}).json == {"model": "one", "loaded": True, "pinned": True}
    refused = ask(server, "two")
    assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1, "all room is pinned"
    assert ask(server, "one").status == 200
    assert server.post("/v1/models/load", {"model": "one", "pin": False}).json["pinned"] is False
    assert ask(server, "two").status == 200
    assert server.post("/v1/models/unload", {"model": "two"}).json == {"model": "two", "loaded": False, "pinned": False}
    assert loaded(server) == set()
    assert server.post("/v1/models/unload", {"model": "two"}).status == 200, "it is what was asked for"
    assert ask(server, "two").status == 200
    for body, status in (({"model": "nobody"}, 404), ({}, 400), ({"model": "one", "pin": 1}, 400), ({"model": "one", "ttl": 1}, 400)):
        assert server.post("/v1/models/load", body).status == status, body


def test_an_idle_model_is_unloaded(serve, folders):
    server = serve("--model-dir", folders, "--model-idle-ttl-ms", "300")
    assert server.post("/v1/models/load", {"model": "two", "pin": True}).status == 200
    assert ask(server, "one").status == 200
    wait_loaded(server, {"two"})
    assert ask(server, "one").status == 200


def test_a_model_that_does_not_load_is_told_and_tried_again(serve, folders):
    weights = folders / "two" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-50])
    server = serve("--model-dir", folders)
    for _ in range(2):
        answer = ask(server, "two")
        assert answer.status == 500 and "model" in answer.error["message"], answer.body
    assert server.post("/v1/models/load", {"model": "two"}).status >= 400
    assert ask(server, "one").status == 200
    weights.write_bytes(whole)
    assert ask(server, "two").status == 200


def test_suspend_unloads_and_the_next_request_loads(serve, folders):
    server = serve("--model-dir", folders)
    assert ask(server, "one").status == 200
    assert server.post("/v1/admin/suspend", None).json["state"] == "suspended"
    wait_loaded(server, set())
    assert ask(server, "one").status == 503
    server.post("/v1/admin/resume", None)
    assert ask(server, "one").status == 200


def test_sigterm_while_models_are_loaded(serve, folders):
    server = serve("--model-dir", folders)
    assert ask(server, "one").status == 200
    server.signal()
    assert server.process.wait(60) == 0


def test_profiles(tmp_path):
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps({"hot": {"temperature": 1.5, "top_k": 7}}))
    script = {"model": "m", "names": ["m:q4"], "replies": [{"report": True}]}
    server = Server(script, tmp_path, ["--profiles", str(path)])
    try:
        def values(**fields):
            answer = server.chat(**fields)
            assert answer.status == 200 and answer.json["model"] == "m", answer.body
            report = json.loads(answer.text)
            return report["temperature"], report["top_k"]

        assert values(model="m") == (1, 0)
        for name in ("m:hot", "default:hot", "m:q4:hot"):
            assert values(model=name) == (1.5, 7), name
        assert values(model="m:hot", temperature=0.5) == (0.5, 7), "the request wins"
        assert values(model="m:q4") == (1, 0), "a name of the model's own"
        unknown = server.chat(model="m:cold")
        assert unknown.status == 404 and unknown.error["code"] == "model_not_found"
        assert server.get("/v1/models/m:hot").json["id"] == "m"
    finally:
        server.stop()


@pytest.mark.parametrize("text", ['{"hot": {"temprature": 1}}', '{"hot": {"temperature": 3}}', "[]"])
def test_a_file_of_profiles_with_a_slip_is_refused(tmp_path, text):
    path, script = tmp_path / "profiles.json", tmp_path / "script.json"
    path.write_text(text)
    script.write_text('{"replies": [{"pieces": ["x"]}]}')
    out = subprocess.run([binary(), "serve", "--engine", f"scripted:{script}", "--port", "0", "--profiles", str(path)],
                         capture_output=True, text=True, timeout=60)
    assert out.returncode != 0 and "expected" in out.stderr


def test_bad_lists_of_models_are_refused(tmp_path, folders):
    (tmp_path / "empty").mkdir()
    for arguments in (["--model-dir", tmp_path / "empty"], ["--model-dir", tmp_path / "nowhere"],
                      [folders / "one", folders / "two", "--served-model-name", "x"], [folders / "one", folders / "one"]):
        out = subprocess.run([binary(), "serve", "--port", "0", *map(str, arguments)], capture_output=True, text=True, timeout=60)
        assert out.returncode != 0 and "expected" in out.stderr, arguments
