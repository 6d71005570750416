"""The Ollama surface (OL) over a script: raw, and through the official Python SDK."""
import asyncio
import json
import re
import time

import pytest
from scripted_server import ModelServer, Server, receive_until

ollama = pytest.importorskip("ollama")

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")
COUNTS = ["total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"]
HI = [{"role": "user", "content": "hi"}]
TEMPLATE = ("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
            "{% if enable_thinking is defined %}{{ 'think!' if enable_thinking else 'hush!' }}{% endif %}{{ reasoning_effort|default('') }}")
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris", "days": [1, 2]}}\n</tool_call>'
TOOL = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}}}}}


def cut(text, size=3):
    return [text[i:i + size] for i in range(0, len(text), size)]


SCRIPT = {"model": "org/small", "names": ["small"], "context_length": 2048, "tool_format": "hermes", "reasoning_format": "think",
          "replies": [{"match": "report", "report": True},
                      {"match": "slow", "pieces": ["a", "b"], "delays_ms": [0, 60000]},
                      {"match": "call please", "pieces": cut("<think>well</think>Let me see." + CALL + CALL)},
                      {"match": "broken call", "pieces": cut("Now:" + CALL[:-30]), "finish": "length"},
                      {"match": "think please", "pieces": cut("<think>a thought</think>the answer")},
                      {"pieces": ["Hel", "lo", ", ", "world"]}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ollama")
    (folder / "profiles.json").write_text('{"cold": {"temperature": 0.125}}')
    one = Server(SCRIPT, folder, ["--profiles", str(folder / "profiles.json"), "--state-dir", str(folder / "state")])
    yield one
    one.stop()


@pytest.fixture(scope="module")
def client(server):
    return ollama.Client(host=server.url)


def lines(answer):
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.body.endswith(b"\n")
    return [json.loads(line) for line in answer.body.decode().splitlines()]


def report(server, path="/api/chat", **fields):
    """What reached the engine."""
    body = {"model": "small", "stream": False, **fields}
    if path == "/api/chat":
        body.setdefault("messages", [{"role": "user", "content": "report"}])
    answer = server.post(path, body)
    assert answer.status == 200, answer.body
    said = answer.json
    return json.loads(said["message"]["content"] if "message" in said else said["response"])


def test_OL_08_a_chat_is_lines_of_json_with_counts_in_the_last(server):
    parts = lines(server.post("/api/chat", {"model": "small", "messages": HI}))
    assert "".join(p["message"]["content"] for p in parts) == "Hello, world"
    assert all(p["model"] == "small" and TIME.fullmatch(p["created_at"]) and p["message"]["role"] == "assistant" for p in parts)
    assert [p["done"] for p in parts] == [False] * (len(parts) - 1) + [True]
    last = parts[-1]
    assert last["done_reason"] == "stop" and last["message"]["content"] == ""
    assert all(isinstance(last[name], int) and last[name] >= 0 for name in COUNTS)
    assert last["eval_count"] == 4 and last["prompt_eval_count"] == len("user: hi\nassistant: ")
    assert last["total_duration"] >= last["load_duration"]
    assert not any(name in parts[0] for name in [*COUNTS, "done_reason"])


def test_OL_08_one_object_without_a_stream(server):
    answer = server.post("/api/chat", {"model": "small", "messages": HI, "stream": False})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["message"] == {"role": "assistant", "content": "Hello, world"}
    assert answer.json["done"] is True and answer.json["done_reason"] == "stop" and set(COUNTS) < set(answer.json)
    cut_short = server.post("/api/generate", {"model": "small", "prompt": "hi", "stream": False, "options": {"num_predict": 2}})
    assert cut_short.json["response"] == "Hello" and cut_short.json["done_reason"] == "length" and cut_short.json["eval_count"] == 2


def test_the_sdk_chats_and_generates(server, client):
    whole = client.chat("small", HI)
    assert whole.message.content == "Hello, world" and whole.done and whole.done_reason == "stop" and whole.eval_count == 4
    parts = list(client.chat("small", HI, stream=True))
    assert "".join(p.message.content for p in parts) == "Hello, world" and parts[-1].done
    assert client.generate("small", "hi").response == "Hello, world"
    parts = list(client.generate("small", "hi", stream=True, options={"num_predict": 3}))
    assert "".join(p.response for p in parts) == "Hello, " and parts[-1].done_reason == "length"
    assert client.chat("small", HI, options=ollama.Options(stop=[","])).message.content == "Hello"


def test_the_async_sdk(server):
    async def talk():
        client = ollama.AsyncClient(host=server.url)
        whole = await client.chat("small", HI)
        streamed = "".join([p.message.content async for p in await client.chat("small", HI, stream=True)])
        many = await asyncio.gather(*(client.generate("small", "hi") for _ in range(4)))
        with pytest.raises(ollama.ResponseError, match="model 'nobody' not found"):
            await client.chat("nobody", HI)
        return whole.message.content, streamed, {one.response for one in many}

    assert asyncio.run(talk()) == ("Hello, world", "Hello, world", {"Hello, world"})


def test_OL_09_calls_have_objects_as_arguments(client):
    def weather(city: str, days: list[int]) -> str:
        """Tells the weather.

        Args:
          city: where
          days: when
        """
        return f"rain in {city}"

    messages = [{"role": "user", "content": "call please"}]
    whole = client.chat("small", messages, tools=[weather])
    assert whole.message.content == "Let me see." and whole.message.thinking == "well" and whole.done_reason == "stop"
    calls = [(c.function.name, dict(c.function.arguments)) for c in whole.message.tool_calls]
    assert calls == [("weather", {"city": "Paris", "days": [1, 2]})] * 2
    parts = list(client.chat("small", messages, tools=[TOOL], stream=True))
    streamed = [(c.function.name, dict(c.function.arguments)) for p in parts for c in p.message.tool_calls or []]
    assert streamed == calls
    assert "".join(p.message.content or "" for p in parts) == "Let me see."
    assert "".join(p.message.thinking or "" for p in parts) == "well"
    # The SDK's own messages go back as they came.
    history = [*messages, whole.message, {"role": "tool", "tool_name": "weather", "content": weather("Paris", [1])}, *HI]
    assert client.chat("small", history, tools=[TOOL]).message.content == "Let me see."  # "call please" is in the prompt


def test_TC_08_TC_15_no_tools_no_calls(server):
    answer = server.post("/api/chat", {"model": "small", "messages": [{"role": "user", "content": "call please"}], "stream": False})
    assert "tool_calls" not in answer.json["message"] and CALL in answer.json["message"]["content"]


def test_TC_30_a_call_that_breaks_off_is_left_out(server):
    body = {"model": "small", "messages": [{"role": "user", "content": "broken call"}], "tools": [TOOL]}
    whole = server.post("/api/chat", {**body, "stream": False}).json
    assert whole["done_reason"] == "length" and whole["message"] == {"role": "assistant", "content": "Now:"}
    parts = lines(server.post("/api/chat", body))
    assert parts[-1]["done_reason"] == "length" and not any("tool_calls" in p["message"] for p in parts)


def test_OL_09_thinking_is_apart_and_can_be_left_out(client):
    messages = [{"role": "user", "content": "think please"}]
    for think in (None, True, "low"):
        said = client.chat("small", messages, think=think).message
        assert (said.thinking, said.content) == ("a thought", "the answer")
    said = client.chat("small", messages, think=False).message
    assert (said.thinking, said.content) == (None, "the answer")
    assert not any(p.message.thinking for p in client.chat("small", messages, think=False, stream=True))
    made = client.generate("small", "think please", think=True)
    assert (made.thinking, made.response) == ("a thought", "the answer")


def test_OL_09_the_template_is_told_to_think(start, tmp_path):
    one = start({"template": TEMPLATE, "reasoning_format": "think", "replies": [{"report": True}]}, "--state-dir", str(tmp_path))
    prompts = {str(think): report(one, model="scripted", think=think)["prompt"] for think in (True, False, "high", None)}
    ends = {think: prompt.partition("\n")[2] for think, prompt in prompts.items()}
    assert ends == {"True": "think!", "False": "hush!", "high": "think!high", "None": ""}


def test_a_model_that_cannot_think_says_so_before_a_stream(start, tmp_path):
    one = start({"reasoning_format": "none", "replies": [{"pieces": ["a"]}]}, "--state-dir", str(tmp_path))
    answer = one.post("/api/chat", {"model": "scripted", "messages": HI, "think": True})
    assert answer.status == 400 and answer.json == {"error": '"scripted" does not support thinking'}
    assert one.post("/api/chat", {"model": "scripted", "messages": HI, "think": False}).status == 200


def test_options_reach_the_engine(server):
    got = report(server, options={"temperature": 0.5, "top_k": 7, "top_p": 0.75, "min_p": 0.125, "seed": 9, "repeat_penalty": 1.25,
                                  "presence_penalty": 0.5, "frequency_penalty": 0.25, "num_predict": 900, "num_ctx": 99})
    assert (got["temperature"], got["top_k"], got["top_p"], got["min_p"], got["seed"]) == (0.5, 7, 0.75, 0.125, 9)
    assert (got["repetition_penalty"], got["presence_penalty"], got["frequency_penalty"], got["max_tokens"]) == (1.25, 0.5, 0.25, 900)
    assert report(server, options={"num_predict": -1})["max_tokens"] == report(server, options={"num_predict": -2})["max_tokens"] > 1000


def test_names_that_nothing_knows_are_told(server):
    answer = server.post("/api/chat", {"model": "small", "messages": HI, "colour": 1, "options": {"shade": 1}})
    assert answer.status == 200 and answer.headers["x-penstock-ignored"] == "colour, options.shade"


def test_generate_goes_through_the_template_unless_raw(server):
    ask = dict(path="/api/generate", prompt="report")
    assert report(server, **ask)["prompt"] == "user: report\nassistant: "
    assert report(server, system="be brief", **ask)["prompt"] == "system: be brief\nuser: report\nassistant: "
    assert report(server, raw=True, **ask)["prompt"] == "report"
    answer = server.post("/api/generate", {"model": "small", "prompt": "x", "raw": True, "system": "s"})
    assert answer.status == 400 and answer.json == {"error": "raw mode does not support template, system, or context"}


def test_the_context_of_a_generation_goes_on(server, client):
    first = client.generate("small", "hi", system="be brief")
    assert bytes(t for t in first.context if t < 256).startswith(b"system: be brief\nuser: hi\nassistant: ")
    got = report(server, path="/api/generate", prompt="report", context=list(first.context))
    assert got["prompt_ids"][:len(first.context)] == list(first.context)
    assert bytes(t for t in got["prompt_ids"][len(first.context):] if t < 256) == b"user: report\nassistant: "
    assert "context" not in server.post("/api/generate", {"model": "small", "prompt": "x", "raw": True, "stream": False}).json
    assert "context" not in server.post("/api/chat", {"model": "small", "messages": HI, "stream": False}).json
    assert server.post("/api/generate", {"model": "small", "prompt": "x", "context": [10**6]}).status == 400


def test_a_model_without_a_template_continues_the_text(start, tmp_path):
    one = start({"template": False, "replies": [{"report": True}]}, "--state-dir", str(tmp_path))
    assert report(one, path="/api/generate", model="scripted", prompt="Once", system="Say")["prompt"] == "Say\n\nOnce"
    assert one.post("/api/chat", {"model": "scripted", "messages": HI}).status == 400


def test_log_probabilities(client):
    parts = list(client.generate("small", "hi", stream=True, logprobs=True, top_logprobs=0))
    tokens = [entry.token for p in parts for entry in p.logprobs or []]
    assert tokens == ["Hel", "lo", ", ", "world"]
    assert [e.logprob for e in client.chat("small", HI, logprobs=True).logprobs] == [-0.5] * 4


@pytest.mark.parametrize("body, said", [
    ({"model": "nobody"}, "model 'nobody' not found"),
    ({"model": "small:nothing"}, "model 'small:nothing' not found"),
])
def test_OL_14_an_unknown_model_is_404(server, body, said):
    for path in ("/api/chat", "/api/generate", "/api/show"):
        answer = server.post(path, {**body, "prompt": "x", "messages": HI} if path != "/api/show" else body)
        assert answer.status == 404 and answer.json == {"error": said}, path


def test_OL_14_errors_are_texts_wherever_they_come_from(server, start, tmp_path):
    for answer, status in ((server.post("/api/chat", b"{"), 400), (server.post("/api/chat", {"messages": HI}), 400),
                           (server.get("/api/nowhere"), 404), (server.get("/api/chat"), 405),
                           (server.post("/api/chat", {"model": "small", "messages": HI, "format": "json"}), 400),
                           (server.post("/api/generate", {"model": "small", "prompt": "x", "images": ["aGk="]}), 400),
                           (server.post("/api/generate", {"model": "small", "prompt": "x", "suffix": "y"}), 400),
                           (server.post("/api/embed", {"model": "small", "input": "x"}), 501),
                           (server.post("/api/embeddings", {"model": "small", "prompt": "x"}), 501)):
        assert answer.status == status and list(answer.json) == ["error"] and isinstance(answer.json["error"], str), answer.body
    keyed = start([{"pieces": ["a"]}], "--api-key", "secret", "--state-dir", str(tmp_path))
    assert keyed.get("/api/tags").status == 401 and isinstance(keyed.get("/api/tags").json["error"], str)
    assert ollama.Client(host=keyed.url, headers={"Authorization": "Bearer secret"}).list().models[0].model == "scripted:latest"


def test_ST_16_what_is_refused_is_no_stream(server):
    for body, status in (({"messages": [{"role": "user", "content": "x" * 5000}]}, 400), ({"messages": HI, "options": {"top_p": 2}}, 400)):
        answer = server.post("/api/chat", {"model": "small", "stream": True, **body})
        assert answer.status == status and answer.headers["content-type"] == "application/json", answer.body


def test_a_failure_within_a_stream_is_its_last_line(start, tmp_path):
    one = start([{"pieces": ["a"], "finish": "error", "error": "lost it"}], "--state-dir", str(tmp_path))
    parts = lines(one.post("/api/chat", {"model": "scripted", "messages": HI}))
    assert parts[0]["message"]["content"] == "a" and "lost it" in parts[-1]["error"]
    with pytest.raises(ollama.ResponseError, match="lost it"):
        list(ollama.Client(host=one.url).chat("scripted", HI, stream=True))


def test_OL_15_names_with_and_without_latest(server):
    for name in ("small", "small:latest", "org/small", "org/small:latest", "hf.co/org/small", "hf.co/org/small:latest"):
        answer = server.post("/api/chat", {"model": name, "messages": HI, "stream": False})
        assert answer.status == 200 and answer.json["model"] == name
    assert report(server, model="small:cold")["temperature"] == 0.125
    assert report(server, model="small:cold", options={"temperature": 0.5})["temperature"] == 0.5


def test_OL_17_a_client_that_leaves_ends_its_generation(server):
    before = server.metric("requests_cancelled_via_disconnect_total")
    body = json.dumps({"model": "small", "messages": [{"role": "user", "content": "slow"}]}).encode()
    connection = server.connect()
    connection.sendall(b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    receive_until(connection, b'"content":"a"')
    connection.close()
    server.wait_metric("requests_running", 0)
    server.wait_metric("sequences_running", 0)
    assert server.metric("requests_cancelled_via_disconnect_total") == before + 1


def test_OL_07_OL_13_what_is_said_of_models(server, client):
    [tag] = server.get("/api/tags").json["models"]
    assert set(tag) == {"name", "model", "modified_at", "size", "digest", "details"}
    assert set(tag["details"]) == {"parent_model", "format", "family", "families", "parameter_size", "quantization_level"}
    assert tag["name"] == tag["model"] == "org/small:latest" and TIME.fullmatch(tag["modified_at"])
    assert tag["details"]["family"] == "scripted"
    assert client.list().models[0].model == "org/small:latest"
    shown = client.show("small")
    assert shown.capabilities == ["completion", "tools", "thinking"] or shown.capabilities == ["completion", "thinking"]
    assert shown.modelinfo["general.architecture"] == "scripted" and shown.modelinfo["scripted.context_length"] == 2048
    [running] = client.ps().models
    assert running.model == "org/small:latest" and running.context_length == 2048
    assert re.fullmatch(r"\d+\.\d+\.\d+", server.get("/api/version").json["version"])


def test_clients_probe_the_root(server):
    assert server.get("/").body == b"Ollama is running"
    head = server.request("HEAD", "/")
    assert head.status == 200 and head.body == b""


def expires(one):
    models = one.get("/api/ps").json["models"]
    return models[0]["expires_at"] if models else None


def wait_expires(one, wanted, seconds=60):
    until = time.monotonic() + seconds
    while expires(one) != wanted:
        assert time.monotonic() < until, expires(one)
        time.sleep(0.02)


def test_keep_alive(start, tmp_path):
    one = start([{"match": "slow", "pieces": ["a", "b"], "delays_ms": [0, 500]}, {"pieces": ["a"]}], "--state-dir", str(tmp_path))
    client = ollama.Client(host=one.url)
    assert expires(one).startswith("2318"), "by default it stays"
    client.chat("scripted", HI, keep_alive="10m")
    assert re.match(r"20\d\d-", expires(one))
    client.chat("scripted", HI)
    assert re.match(r"20\d\d-", expires(one)), "a request that does not say leaves it as it was"
    client.chat("scripted", HI, keep_alive=-1)
    assert expires(one).startswith("2318") and one.get("/v1/models").json["data"][0]["penstock"]["pinned"] is True
    slow = client.chat("scripted", [{"role": "user", "content": "slow"}], keep_alive=0, stream=True)
    assert "".join(p.message.content for p in slow) == "ab", "it is unloaded after the answer"
    wait_expires(one, None)
    assert client.chat("scripted", HI).message.content == "a", "and loaded again"


def test_requests_without_a_prompt_load_and_unload(start, tmp_path):
    one = start([{"pieces": ["a"]}], "--state-dir", str(tmp_path))
    client = ollama.Client(host=one.url)
    for ask in (lambda **k: client.generate("scripted", **k), lambda **k: client.chat("scripted", [], **k)):
        gone = ask(keep_alive=0)
        assert gone.done and gone.done_reason == "unload"
        wait_expires(one, None)
        there = ask(keep_alive="5m")
        assert there.done_reason == "load" and re.match(r"20\d\d-", expires(one))
    assert one.metric("requests_received_total") == 0
    one.post("/v1/admin/quiesce", {})
    assert one.post("/api/generate", {"model": "scripted"}).status == 503


def test_SE_12_models_are_changed_only_where_that_is_allowed(start, tmp_path):
    asks = [("POST", "/api/pull", {"model": "org/x"}), ("POST", "/api/copy", {"source": "scripted", "destination": "y"}),
            ("DELETE", "/api/delete", {"model": "scripted"}), ("POST", "/api/create", {"model": "y", "from": "scripted"}),
            ("POST", "/api/blobs/sha256:" + "0" * 64, b"x")]
    off = start([{"pieces": ["a"]}], "--model-changes", "off", "--state-dir", str(tmp_path / "off"))
    for method, path, body in asks:
        answer = off.request(method, path, body)
        assert answer.status == 403 and "model_changes" in answer.json["error"], path
    assert off.request("HEAD", "/api/blobs/sha256:" + "0" * 64).status == 403
    assert not (tmp_path / "off" / "library").exists()
    others = start([{"pieces": ["a"]}], "--host", "0.0.0.0", "--api-key", "k", "--state-dir", str(tmp_path / "others"))
    answer = others.request(*asks[1][:2], asks[1][2], headers={"Authorization": "Bearer k"})
    assert answer.status == 403, "off by default where other machines reach it"
    here = start([{"pieces": ["a"]}], "--state-dir", str(tmp_path / "here"), "--cors-origins", "https://good.example")
    for method, path, body in asks:
        assert here.request(method, path, body, headers={"Origin": "https://bad.example"}).status == 403, path
    for origin in ("https://good.example", here.url):
        assert here.post("/api/copy", {"source": "scripted", "destination": "y"}, headers={"Origin": origin}).status == 200


def test_a_real_model(smollm2, tmp_path):
    one = ModelServer(smollm2, tmp_path, ["--executor", "cpu", "--state-dir", str(tmp_path / "state")])
    try:
        client = ollama.Client(host=one.url)
        messages = [{"role": "user", "content": "Say hello in French."}]
        greedy = {"temperature": 0, "num_predict": 12}
        said = client.chat("smollm2", messages, options=greedy)
        assert said.message.content == one.ask("Say hello in French.", max_tokens=12).text and said.eval_count == 12
        assert said.prompt_eval_duration > 0 and said.eval_duration > 0
        assert "".join(p.message.content for p in client.chat("smollm2:latest", messages, options=greedy, stream=True)) == said.message.content
        first = client.generate("smollm2", "My name is Ada.", options=greedy)
        second = client.generate("smollm2", "What is my name?", options=greedy, context=first.context)
        assert second.context[:len(first.context)] == first.context and second.prompt_eval_count > len(first.context)
        [tag] = client.list().models
        assert (tag.model, tag.details.format, tag.details.family, tag.details.parameter_size, tag.details.quantization_level) == (
            "smollm2:latest", "gguf", "llama", "134.52M", "Q4_1")
        assert re.fullmatch("[0-9a-f]{64}", tag.digest) and 90e6 < tag.size < 110e6
        shown = client.show("smollm2")
        assert shown.license == "Apache-2.0" and shown.modelinfo["llama.context_length"] == 8192 and "messages" in shown.template
        [running] = client.ps().models
        assert running.digest == tag.digest and running.size > 50e6
        tools = one.post("/api/chat", {"model": "smollm2", "messages": messages, "tools": [TOOL]})
        assert tools.status == 400 and "template" in tools.json["error"]
    finally:
        one.stop()
