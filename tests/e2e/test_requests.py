"""Requests and answers of the OpenAI surface (OA, LP, TK): fields, errors, models, log probabilities."""
import json
import re
import time
import urllib.parse

import pytest
from scripted_server import receive_until


def report(server, **fields):
    """What the engine was given for this request."""
    answer = server.chat("report", **fields)
    assert answer.status == 200, answer.body
    return json.loads(answer.text)


@pytest.fixture(scope="module")
def reporter(tmp_path_factory):
    from scripted_server import Server
    server = Server({"context_length": 100000, "replies": [{"report": True}]}, tmp_path_factory.mktemp("reporter"))
    yield server
    server.stop()


def test_OA_01_max_completion_tokens(hello):
    answer = hello.chat("long", max_tokens=9, max_completion_tokens=3)
    assert answer.text == "word " * 3 and answer.json["choices"][0]["finish_reason"] == "length"
    assert answer.json["usage"]["completion_tokens"] == 3


def test_OA_02_n(hello):
    for n in (0, -1, 1.5, "2", True, 9):
        answer = hello.chat(n=n)
        assert answer.status == 400 and answer.error["param"] == "n", n
    choices = hello.chat(n=2).json["choices"]
    assert [c["index"] for c in choices] == [0, 1]
    assert [c["message"]["content"] for c in choices] == ["Hello, world"] * 2


def test_OA_03_numbers_are_strict(hello):
    for value in ("true", '"0.7"', "NaN", "Infinity", '"NaN"', "1e999", "-1"):
        body = '{"messages": [{"role": "user", "content": "hi"}], "temperature": %s}' % value
        assert hello.post("/v1/chat/completions", body).status == 400, value


def test_OA_04_repetition_penalty(hello):
    for value in (-1, 0):
        assert hello.chat(repetition_penalty=value).error["param"] == "repetition_penalty"
    assert hello.chat().status == 200


def test_OA_05_sampling_fields_reach_the_engine(reporter):
    asked = {"temperature": 0.5, "top_k": 5, "top_p": 0.25, "min_p": 0.125, "presence_penalty": 1.5,
             "frequency_penalty": -0.5, "repetition_penalty": 1.25, "seed": 7, "max_tokens": 5000}
    got = report(reporter, logit_bias={"65": -100}, **asked)
    assert {k: got[k] for k in asked} == asked
    assert got["logit_bias"] == [[65, -100]]


def test_defaults_of_sampling(reporter, start):
    got = report(reporter)
    assert (got["temperature"], got["top_p"], got["top_k"], got["min_p"], got["repetition_penalty"]) == (1, 1, 0, 0, 1)
    assert got["seed"] != report(reporter)["seed"], "an open seed is random"
    own = start({"defaults": {"temperature": 0.25, "top_p": 0.5}, "replies": [{"report": True}]})
    got = report(own, top_p=0.75)
    assert (got["temperature"], got["top_p"]) == (0.25, 0.75)


def test_OA_08_model_names(hello):
    for name in ("org/hello", "hello", "default", "", None):
        answer = hello.chat(model=name)
        assert answer.status == 200 and answer.json["model"] == "org/hello", name
    for body in ({"model": "nobody"}, {"model": "nobody", "stream": True}):
        answer = hello.chat(**body)
        assert answer.status == 404
        assert (answer.error["code"], answer.error["type"]) == ("model_not_found", "not_found_error")


def test_OA_09_bodies_that_are_not_json(hello):
    for body, headers in ((b"{", {}), (b"", {}), (b"[]", {}), (b"{}", {"Content-Type": "text/plain"}), (b"\xff", {})):
        answer = hello.post("/v1/chat/completions", body, headers=headers)
        assert answer.status == 400 and answer.error["code"] == "invalid_json", body


def test_OA_10_unknown_paths_and_methods(hello):
    assert hello.get("/v1/nothing").status == 404 and hello.get("/v1/nothing").error["code"] == "not_found"
    answer = hello.request("DELETE", "/v1/chat/completions")
    assert answer.status == 405 and answer.error["code"] == "method_not_allowed" and "POST" in answer.headers["allow"]


def test_OA_12_content_parts(hello):
    def ask(part):
        return hello.chat(messages=[{"role": "user", "content": [part]}])

    assert ask({"type": "text", "text": "hi"}).status == 200
    for part in ({"type": "image_url", "image_url": "http://x"}, {"type": "image_url", "image_url": {"url": "http://x"}},
                 {"type": "input_audio", "input_audio": {}}, {"type": "smell"}):
        assert ask(part).error["param"].startswith("messages[0].content[0]"), part


def test_OA_15_models(hello):
    listed = hello.get("/v1/models").json
    assert listed["object"] == "list" and [m["id"] for m in listed["data"]] == ["org/hello"]
    for path in ("org/hello", "org%2Fhello", "hello"):
        model = hello.get("/v1/models/" + path).json
        assert model["id"] == "org/hello" and model["object"] == "model" and model["max_model_len"] == 512
    assert hello.get("/v1/models/" + urllib.parse.quote("no/such", safe="")).error["code"] == "model_not_found"
    assert [m.id for m in hello.openai().models.list()] == ["org/hello"]


def test_OA_16_extra_fields(hello):
    answer = hello.chat(store=False, metadata={"a": "b"}, service_tier="auto", prompt_cache_key="k",
                        safety_identifier="s", user="u")
    assert answer.status == 200 and "x-penstock-ignored" not in answer.headers
    before = hello.metric("ignored_fields_total")
    for stream in (False, True):
        answer = hello.chat(verbosity="low", my_extra=1, stream=stream)
        assert answer.status == 200 and answer.headers["x-penstock-ignored"] == "verbosity, my_extra"
    assert hello.metric("ignored_fields_total") == before + 4
    answer = hello.chat(stream=True, stream_options={"include_usage": True, "chunk_size": 3})
    assert answer.headers["x-penstock-ignored"] == "stream_options.chunk_size"
    # A name cannot bring a header of its own.
    answer = hello.chat(**{"x\r\nInjected: 1": 1})
    assert answer.status == 200 and "injected" not in answer.headers


def test_OA_23_overload_says_when_to_retry(start):
    server = start({"max_num_seqs": 1, "max_queue": 0, "replies": [{"pieces": ["a"], "delays_ms": 60000}]})
    # With no room to wait, whoever comes is refused.
    answer = server.chat()
    assert answer.status == 429 and answer.error["type"] == "rate_limit_error" and answer.headers["retry-after"]
    assert server.chat(stream=True).status == 429
    server.wait_metric("requests_refused_total", 2)


def test_OA_24_seed(reporter):
    assert report(reporter, seed=42)["seed"] == 42
    assert report(reporter, seed=-1)["seed"] == 2**64 - 1
    assert report(reporter, seed=2**64 - 1)["seed"] == 2**64 - 1
    assert reporter.chat(seed=2**64).status == 400 and reporter.chat(seed=1.5).status == 400


def test_OA_26_log_probabilities(start):
    euro = list("€".encode())
    server = start([{"pieces": ["Hi", {"bytes": euro[:2]}, {"bytes": euro[2:]}], "logprobs": [-0.25, -1, -2],
                     "top": [[["Hi", -0.25], ["Ho", -2], ["Hu", -3]], [], []]}])
    for bad in ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 21}, {"logprobs": True, "top_logprobs": -1}):
        assert server.chat(**bad).error["param"] == "top_logprobs"
    whole = server.chat(logprobs=True, top_logprobs=2).json["choices"][0]["logprobs"]["content"]
    assert [e["logprob"] for e in whole] == [-0.25, -1, -2]
    assert [e["bytes"] for e in whole] == [list(b"Hi"), euro[:2], euro[2:]]
    assert b"".join(bytes(e["bytes"]) for e in whole).decode() == "Hi€"
    assert [t["token"] for t in whole[0]["top_logprobs"]] == ["Hi", "Ho"]
    assert whole[1]["token"].startswith("bytes:\\x")
    stream = server.stream(logprobs=True, top_logprobs=2)
    assert [e for c in stream.chunks for x in c["choices"] if x["logprobs"] for e in x["logprobs"]["content"]] == whole
    assert server.chat().json["choices"][0]["logprobs"] is None
    sdk = server.openai().chat.completions.create(model="default", logprobs=True, top_logprobs=2,
                                                  messages=[{"role": "user", "content": "hi"}])
    assert sdk.choices[0].logprobs.content[0].top_logprobs[1].token == "Ho"


def test_log_probabilities_of_completions(start):
    server = start([{"pieces": ["Hi", " é", "!"], "logprobs": [-1, -2, -3], "top": [[["Hi", -1], ["Ho", -4]]]}])
    got = server.post("/v1/completions", {"prompt": "x", "logprobs": 1}).json["choices"][0]["logprobs"]
    assert got == {"tokens": ["Hi", " é", "!"], "token_logprobs": [-1, -2, -3], "top_logprobs": [{"Hi": -1}, {}, {}],
                   "text_offset": [0, 2, 4]}


def test_OA_27_request_encodings(hello):
    answer = hello.post("/v1/chat/completions", b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    assert answer.status == 415 and answer.error["code"] == "unsupported_media_type"
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
    connection = hello.connect()
    connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
    assert b" 100 " in receive_until(connection, b"\r\n\r\n")
    connection.sendall(body)
    assert b"Hello, world" in receive_until(connection, b"}}")
    connection.close()


def test_OA_29_options_and_head(hello):
    assert hello.request("OPTIONS", "/v1/chat/completions").status in (200, 204)
    answer = hello.request("HEAD", "/v1/models")
    assert answer.status == 200 and answer.body == b"" and answer.headers["content-type"] == "application/json"
    assert hello.request("HEAD", "/health").status == 200


def test_OA_30_connections_are_kept_and_pipelined(hello):
    request = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    connection = hello.connect()
    connection.sendall(request + request)
    data = b""
    while data.count(b"200 OK") < 2 or data.count(b'"org/hello"') < 2:
        data += connection.recv(65536)
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
    assert b"400" in receive_until(connection, b"invalid_json")
    connection.close()


def test_OA_30_an_unread_body_is_not_taken_for_requests(hello):
    """An error that comes before the body is read: the connection ends, or goes on after the body."""
    inside, after = b"DELETE /inside HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    for head in (b"POST /v1/nothing", b"DELETE /v1/chat/completions", b"POST /v1/completions HTTP/1.1\r\nContent-Type: text/plain",
                 b"POST /v1/completions HTTP/1.1\r\nContent-Encoding: gzip"):
        line, _, field = head.partition(b" HTTP/1.1")
        body = inside * 3000
        connection = hello.connect(timeout=60)
        data = b""
        try:
            connection.sendall(b"%s HTTP/1.1\r\nHost: x%s\r\nContent-Length: %d\r\n\r\n" % (line, field, len(body)) + body + after)
            while b'"org/hello"' not in data:
                more = connection.recv(65536)
                if not more:
                    break
                data += more
        except ConnectionError:
            pass
        connection.close()
        statuses = re.findall(rb"HTTP/1.1 (\d+) ", data)
        assert statuses[:1] in ([b"400"], [b"404"], [b"405"], [b"415"]) and statuses[1:] in ([], [b"200"]), (head, statuses)


def test_completions_take_texts_lists_and_ids(reporter):
    def prompts(prompt, **fields):
        answer = reporter.post("/v1/completions", {"prompt": prompt, "max_tokens": 5000, **fields})
        assert answer.status == 200, answer.body
        assert [c["index"] for c in answer.json["choices"]] == list(range(len(answer.json["choices"])))
        return [json.loads(c["text"])["prompt_ids"] for c in answer.json["choices"]]

    assert prompts("ab") == [[97, 98]]
    assert prompts(["a", "b"]) == [[97], [98]]
    assert prompts([97, 98]) == [[97, 98]]
    assert prompts([[97], [98]]) == [[97], [98]]
    assert prompts(["a", "b"], n=2) == [[97], [97], [98], [98]]
    answer = reporter.post("/v1/completions", {"prompt": [10**6]})
    assert answer.status == 400 and answer.error["param"] == "prompt"
    usage = reporter.post("/v1/completions", {"prompt": ["ab", "c"], "n": 2, "max_tokens": 1}).json["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, 4)


def test_completions_default_to_16_tokens(hello):
    answer = hello.post("/v1/completions", {"prompt": "long"})
    assert answer.json["usage"]["completion_tokens"] == 16 and answer.json["choices"][0]["finish_reason"] == "length"


def test_unbuilt_completion_fields_are_named(hello):
    for field, value in (("echo", True), ("suffix", "x"), ("best_of", 2)):
        answer = hello.post("/v1/completions", {"prompt": "x", field: value})
        assert (answer.status, answer.error["param"], answer.error["code"]) == (400, field, "unsupported")


def test_LP_01_prompt_over_the_context(hello):
    long = "x" * 1000
    for path, body in (("/v1/chat/completions", {"messages": [{"role": "user", "content": long}]}),
                       ("/v1/completions", {"prompt": long})):
        for stream in (False, True):
            answer = hello.post(path, {**body, "stream": stream})
            assert answer.status == 400 and answer.error["code"] == "context_length_exceeded"
            assert "512" in answer.error["message"] and "10" in answer.error["message"]
    assert hello.metric("sequences_running") == 0


def test_LP_03_and_LP_06_max_tokens(hello):
    for value in (0, -5, 1.5, "10"):
        assert hello.chat(max_tokens=value).error["param"] == "max_tokens", value
    assert hello.chat(max_tokens=None).text == "Hello, world"
    for value in (512, 2**40):
        answer = hello.chat("long", max_tokens=value)
        prompt = answer.json["usage"]["prompt_tokens"]
        assert answer.json["penstock"]["max_tokens"] == 512 - prompt


def test_LP_08_large_bodies(start):
    server = start([{"pieces": ["a"]}], "--max-body-bytes", "2000")
    answer = server.chat("x" * 3000)
    assert answer.status == 413 and answer.error["code"] == "request_too_large"
    assert server.chat("x" * 1000).status == 200


def test_LP_11_many_messages_take_linear_time(start):
    server = start({"context_length": 10**7, "replies": [{"pieces": ["a"]}]})

    def seconds(count):
        messages = [{"role": "user" if i % 2 else "assistant", "content": "hello"} for i in range(count)]
        best = 1e9
        for _ in range(3):
            begin = time.perf_counter()
            assert server.chat(messages=messages).status == 200
            best = min(best, time.perf_counter() - begin)
        return best

    assert seconds(20000) < 15 * seconds(4000)


def test_LP_12_one_long_line(start):
    server = start({"context_length": 1000, "replies": [{"pieces": ["a"]}]})
    assert server.chat("a" * 2_000_000).error["code"] == "context_length_exceeded"


def test_TK_03_characters_split_over_tokens(start):
    text = "👨‍👩‍👧‍👦 漢字 é"
    server = start([{"pieces": [{"bytes": [b]} for b in text.encode()]}])
    assert server.both()[0] == text
    for delta in server.stream().deltas():
        assert "\ufffd" not in delta.get("content", "")


def test_TK_04_incomplete_character_at_the_end(start):
    assert start([{"pieces": ["a", {"bytes": [0xE2, 0x82]}]}]).both()[0] == "a\ufffd"


def test_TK_20_prompt_tokens_are_what_was_fed(reporter):
    answer = reporter.chat("report")
    assert answer.json["usage"]["prompt_tokens"] == len(json.loads(answer.text)["prompt_ids"])


def test_PC_18_cached_tokens(start):
    server = start([{"pieces": ["a"], "cached_tokens": 3}])
    usage = server.chat().json["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 3
    assert usage["prompt_tokens"] == len("user: hi\nassistant: ")


def test_ignore_eos(hello):
    answer = hello.chat(ignore_eos=True, max_tokens=10)
    assert answer.json["usage"]["completion_tokens"] == 10 and answer.json["choices"][0]["finish_reason"] == "length"


def test_health_and_metrics(hello):
    for path in ("/health", "/healthz", "/readyz", "/livez"):
        assert hello.get(path).status == 200
    health = hello.get("/health").json
    assert health["status"] == "healthy" and health["ready"] and health["model_name"] == "org/hello"
    answer = hello.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    for line in answer.body.decode().splitlines():
        assert line.startswith("#") or line.startswith("penstock_"), line


def test_tools_are_shown_unless_they_are_not_to_be_used(reporter):
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"z": 1, "a": 2}}}]
    answer = reporter.chat("report", tools=tools)
    assert '"z":1,"a":2' in json.loads(answer.text)["prompt"], "CT-12: in the client's order"
    hidden = reporter.chat("report", tools=tools, tool_choice="none")
    assert "look" not in json.loads(hidden.text)["prompt"]


def test_errors_say_what_to_do(hello):
    assert "/v1/chat/completions, /v1/completions, /v1/files" in hello.get("/v1/embeddings").error["message"]
    assert "use tools" in hello.chat(functions=[{"name": "f"}]).error["message"]
    assert "use tool_choice" in hello.chat(function_call="auto").error["message"]
    message = hello.post("/v1/chat/completions", b"{bad").error["message"]
    assert "line 1, column 2" in message and "exception" not in message


def test_TC_11_forced_calls_are_refused(hello):
    tools = [{"type": "function", "function": {"name": "look"}}]
    named = {"type": "function", "function": {"name": "look"}}
    for choice in ("required", named):
        assert hello.chat(tools=tools, tool_choice=choice).error["param"] == "tool_choice"
        assert hello.chat(tool_choice=choice).error["param"] == "tool_choice"
        assert hello.chat(tools=[], tool_choice=choice).status == 400


def test_sdk_answers_in_one_piece(hello):
    got = hello.openai().chat.completions.create(model="org/hello", messages=[{"role": "user", "content": "hi"}])
    assert got.choices[0].message.content == "Hello, world" and got.choices[0].finish_reason == "stop"
    assert got.object == "chat.completion" and got.usage.total_tokens == got.usage.prompt_tokens + 4


def test_sdk_errors_have_their_classes(hello):
    import openai
    client = hello.openai()
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "hi"}])
    assert error.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="hello", temperature=3, messages=[{"role": "user", "content": "hi"}])
    assert error.value.param == "temperature"
