"""Streaming and SSE (ST): what clients, proxies and SDKs need of a stream."""
import json
import statistics
import threading
import time

from scripted_server import Stream, receive_until


def test_ST_03_usage_only_on_request(hello):
    assert all("usage" not in chunk for chunk in hello.stream().chunks)
    chunks = hello.stream(stream_options={"include_usage": True}).chunks
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 4
    assert all(chunk.get("usage") is None for chunk in chunks[:-1])


def test_ST_04_stream_options_are_strict(hello):
    assert hello.chat(stream=True, stream_options={"include_usage": "yes"}).status == 400
    assert hello.chat(stream_options={"include_usage": True}).status == 400


def test_ST_05_same_id_and_created_in_all_chunks(hello):
    chunks = hello.stream(stream_options={"include_usage": True}).chunks
    assert len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks}) == 1
    assert abs(chunks[0]["created"] - time.time()) < 60 and isinstance(chunks[0]["created"], int)
    assert chunks[0]["id"].startswith("chatcmpl-") and chunks[0]["object"] == "chat.completion.chunk"


def test_ST_07_comments_while_the_model_is_silent(start):
    server = start([{"pieces": ["a"], "delays_ms": 700}], "--sse-keepalive-ms", "100")
    stream = server.stream()
    assert len(stream.comments) >= 3, stream.frames
    first_text = next(i for i, f in enumerate(stream.frames) if '"a"' in f)
    assert sum(f.startswith(":") for f in stream.frames[:first_text]) >= 3, "they start before the first token"
    assert stream.frames[-1] == "data: [DONE]"
    assert stream.text() == "a"


def test_ST_08_headers_that_keep_proxies_from_buffering(hello):
    headers = hello.chat(stream=True).headers
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-cache, no-transform"
    assert headers["x-accel-buffering"] == "no"


def test_ST_11_whitespace_deltas_are_kept(start):
    assert start([{"pieces": ["a", "\n", "\n", "- b"]}]).both()[0] == "a\n\n- b"


def test_ST_12_held_back_tail_arrives(start):
    assert start([{"pieces": ["hello ", "<"]}]).both(stop=["<|stop|>"]) == ("hello <", "stop", 2)


def test_ST_15_engine_failures_end_the_stream(start):
    for finish in ("error", "vanish", "crash"):
        server = start([{"pieces": ["a"], "delays_ms": 50, "finish": finish, "error": "broken"}])
        stream = server.stream()
        assert stream.text() == "a" and stream.done == 0
        assert stream.chunks[-1]["error"]["type"] == "api_error", finish
        whole = server.chat()
        assert whole.status in (500, 503) and whole.error["type"] == "api_error"


def test_ST_15_sdk_raises_on_an_error_frame(start):
    import openai
    import pytest
    server = start([{"pieces": ["a"], "finish": "error", "error": "broken"}])
    with pytest.raises(openai.APIError, match="broken"):
        for _ in server.openai().chat.completions.create(model="default", stream=True,
                                                          messages=[{"role": "user", "content": "hi"}]):
            pass


def test_ST_16_bad_requests_are_refused_before_the_headers(hello):
    for fields in ({"model": "nobody"}, {"temperature": 9}, {"messages": [{"role": "user", "content": "x" * 600}]},
                   {"response_format": {"type": "json_schema"}}):
        answer = hello.chat(stream=True, **fields)
        assert answer.status in (400, 404) and answer.headers["content-type"] == "application/json"
        assert answer.error["message"]


def test_ST_17_grouped_tokens_arrive_whole(start):
    server = start([{"pieces": list("0123456789"), "group": 4}])
    stream = server.stream(logprobs=True)
    assert stream.text() == "0123456789"
    entries = [e for chunk in stream.chunks for c in chunk["choices"] if c["logprobs"] for e in c["logprobs"]["content"]]
    assert [e["token"] for e in entries] == list("0123456789")
    whole = server.chat(logprobs=True).json["choices"][0]["logprobs"]["content"]
    assert whole == entries


def test_ST_18_role_once_and_first(hello):
    deltas = hello.stream().deltas()
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert all("role" not in d for d in deltas[1:])


def test_ST_19_other_routes_stay_quick_while_generating(start):
    server = start([{"pieces": ["word "], "repeat": 100000, "delays_ms": 2}])
    streams = [server.open_stream() for _ in range(8)]
    for stream in streams:
        receive_until(stream, b"word")
    times = []
    for path in ["/v1/models", "/health"] * 50:
        begin = time.perf_counter()
        assert server.get(path).status == 200
        times.append(time.perf_counter() - begin)
    busy = sorted(times)[-2]  # p99 of a hundred
    for stream in streams:
        stream.close()
    server.wait_metric("requests_running", 0)
    times.clear()
    for path in ["/v1/models", "/health"] * 50:
        begin = time.perf_counter()
        server.get(path)
        times.append(time.perf_counter() - begin)
    assert busy < 20 * statistics.median(times) + 0.1, "generation does not hold up the io thread"


def test_ST_20_an_answer_of_no_tokens(hello):
    assert hello.both("empty") == ("", "stop", 0)
    stream = hello.stream("empty")
    assert stream.deltas() == [{"role": "assistant", "content": ""}, {}] and stream.done == 1
    assert hello.chat("empty").json["choices"][0]["message"]["content"] == ""


def test_ST_21_one_token(hello):
    stream = hello.stream(max_tokens=1)
    assert [d["content"] for d in stream.deltas() if d.get("content")] == ["Hel"]
    assert stream.reason() == "length"


def test_ST_25_done_once_and_last(hello):
    for fields in ({}, {"n": 3}, {"stop": "lo"}, {"max_tokens": 1}, {"stream_options": {"include_usage": True}}):
        stream = hello.stream(**fields)
        assert stream.done == 1 and stream.body.endswith(b"data: [DONE]\n\n"), fields


def test_streams_of_several_choices(start):
    stream = start({"gather": 3, "replies": [{"pieces": ["a", "b"]}]}).stream(n=3)
    assert [stream.text(i) for i in range(3)] == ["ab"] * 3
    assert [stream.reason(i) for i in range(3)] == ["stop"] * 3
    assert sum("penstock" in chunk for chunk in stream.chunks) == 1
    assert stream.receipt["executor"] == "scripted" and stream.receipt["batch_width"] == 3


def test_batch_widths_are_told(start):
    server = start({"gather": 4, "replies": [{"pieces": ["word "], "repeat": 30}]})
    answers = [None] * 4

    def ask(i):
        answers[i] = server.chat()

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert all(a.text == "word " * 30 for a in answers)
    assert all(int(a.headers["x-penstock-batch-width"]) == 4 for a in answers)
    assert all(a.json["penstock"]["batch_width"] == int(a.headers["x-penstock-batch-width"]) for a in answers)
    assert all(a.headers["x-penstock-executor"] == "scripted" for a in answers)


def test_sdk_reads_a_stream(hello):
    client = hello.openai()
    texts, last = [], None
    for chunk in client.chat.completions.create(model="org/hello", stream=True, stream_options={"include_usage": True},
                                                messages=[{"role": "user", "content": "hi"}]):
        if chunk.choices:
            texts.append(chunk.choices[0].delta.content or "")
        last = chunk
    assert "".join(texts) == "Hello, world"
    assert last.usage.completion_tokens == 4 and last.usage.prompt_tokens == len("user: hi\nassistant: ")


def test_sdk_reads_a_completion_stream(hello):
    chunks = list(hello.openai().completions.create(model="org/hello", prompt="hi", stream=True, max_tokens=50))
    assert "".join(c.choices[0].text for c in chunks) == "Hello, world"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[0].object == "text_completion"


def test_first_piece_is_sent_before_the_second_is_drawn(hello):
    connection = hello.open_stream("slow")
    data = receive_until(connection, b'"content":"a"')
    assert b"[DONE]" not in data
    connection.close()


def test_a_stream_has_no_content_length_and_ends(hello):
    connection = hello.open_stream()
    head = receive_until(connection, b"\r\n\r\n").split(b"\r\n\r\n")[0].lower()
    assert b"content-length" not in head and b"transfer-encoding: chunked" in head
    connection.close()


def test_stream_parser_of_these_tests_sees_faults():
    stream = Stream(b'data: {"choices": []}\n\ndata: [DONE]\n\ndata: [DONE]\n\n')
    assert stream.done == 2 and json.loads(stream.data[0]) == {"choices": []}
