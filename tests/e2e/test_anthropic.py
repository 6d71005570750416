"""The Anthropic surface over the scripted engine (AN): raw frames and errors, and the official SDK."""
import asyncio
import json

import pytest
from test_tool_calls import call, cut

HI = [{"role": "user", "content": "hi"}]
TOOLS = [{"name": name, "description": f"tells the {name}", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
         for name in ("weather", "time")]
OPENAI_TOOLS = [{"type": "function", "function": {"name": t["name"], "description": t["description"], "parameters": t["input_schema"]}} for t in TOOLS]
# Shows all that reaches a template.
TEMPLATE = ("{% if tools %}tools: {{ tools | tojson }}\n{% endif %}{% if enable_thinking is defined %}thinking: {{ 'on' if enable_thinking else 'off' }}\n{% endif %}"
            "{% if reasoning_effort is defined %}effort: {{ reasoning_effort }}\n{% endif %}"
            "{% for m in messages %}{{ m.role }}: {% if m.reasoning_content %}({{ m.reasoning_content }}) {% endif %}{{ m.content }}"
            "{% for c in m.tool_calls or [] %}<{{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }}>{% endfor %}"
            "{% if m.tool_call_id %} for {{ m.tool_call_id }}{% endif %}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}")


def error_of(answer):
    body = answer.json
    assert set(body) == {"type", "error"} and body["type"] == "error" and set(body["error"]) == {"type", "message"}, body
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    return body["error"]


def ask(server, text="hi", path="/v1/messages", headers=None, **fields):
    body = {"model": "scripted", "max_tokens": 100, "messages": [{"role": "user", "content": text}], **fields}
    return server.post(path, {k: v for k, v in body.items() if v is not ...}, headers=headers)


def events(answer):
    """The events of a stream, whose names are their types."""
    assert answer.status == 200, answer.body
    out = []
    for frame in answer.body.decode().split("\n\n"):
        if not frame:
            continue
        name, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        out.append(event)
    return out


def fold(stream):
    """A stream as the message that it stands for, its order checked on the way (AN-04)."""
    assert stream[0]["type"] == "message_start" and stream[-1] == {"type": "message_stop"} and stream[-2]["type"] == "message_delta"
    message, is_open = stream[0]["message"], False
    assert message["content"] == [] and message["stop_reason"] is None and message["stop_sequence"] is None
    inputs = {}
    for event in stream[1:-2]:
        kind = event["type"]
        if kind == "ping":
            continue
        if kind == "content_block_start":
            assert not is_open and event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
        assert is_open == (kind != "content_block_start") and event["index"] == len(message["content"]) - 1
        is_open = kind != "content_block_stop"
        block = message["content"][-1]
        if kind == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "input_json_delta":
                inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
            else:
                block[delta["type"].removesuffix("_delta")] += delta[delta["type"].removesuffix("_delta")]
    assert not is_open
    for index, text in inputs.items():
        try:
            message["content"][index]["input"] = json.loads(text)
        except json.JSONDecodeError:
            pass
    return {**message, **stream[-2]["delta"], "usage": stream[-2]["usage"]}


def both(server, text="hi", **fields):
    """The message, which is the same streamed and whole but for its ids."""
    whole = ask(server, text, **fields)
    assert whole.status == 200, whole.body

    def plain(message):
        assert message.pop("id").startswith("msg_")
        for block in message["content"]:
            if block["type"] == "tool_use":
                assert block.pop("id").startswith("toolu_")
        return message

    message = plain(whole.json)
    assert plain(fold(events(ask(server, text, stream=True, **fields)))) == message
    return message


@pytest.fixture
def server(start):
    """server(text): one whose model writes this, three letters at a time."""
    def make(text, size=3, context_length=4096, **reply):
        return start({"tool_format": "hermes", "reasoning_format": "think", "template": TEMPLATE, "context_length": context_length,
                      "replies": [{"match": "report", "report": True}, {"pieces": cut(text, size), **reply}]})
    return make


def prompt_of(server, **fields):
    """What reaches the model."""
    answer = ask(server, **{"text": "report", "max_tokens": 4000, **fields})
    assert answer.status == 200, answer.body
    return json.loads(answer.json["content"][0]["text"])["prompt"]


def test_a_text(server):
    message = both(server("hello you"))
    assert message == {"type": "message", "role": "assistant", "model": "scripted", "content": [{"type": "text", "text": "hello you"}],
                       "stop_reason": "end_turn", "stop_sequence": None, "usage": message["usage"]}
    assert message["usage"] == {"input_tokens": 20, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 3,
                                "output_tokens_details": {"thinking_tokens": 0}}


def test_AN_05_AN_24_the_start_of_a_stream(server):
    stream = events(ask(server("hello"), stream=True))
    start = stream[0]["message"]
    assert start["usage"]["input_tokens"] == 20 and start["usage"]["output_tokens"] == 0
    assert start["stop_sequence"] is None and None not in [v for k, v in start.items() if k not in ("stop_reason", "stop_sequence")]
    assert stream[-2]["usage"]["input_tokens"] == 20 and stream[-2]["usage"]["output_tokens"] == 2


def test_tokens_from_the_cache(start):
    one = start([{"pieces": ["a"], "cached_tokens": 15}])
    usage = ask(one).json["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (5, 15)
    stream = events(ask(one, stream=True))
    assert stream[0]["message"]["usage"]["input_tokens"] == 20, "nobody knows yet"
    assert stream[-2]["usage"] == usage, "the final numbers"


def test_stop_reasons(server):
    one = server("one two three")
    cut_off = both(one, max_tokens=2)
    assert (cut_off["stop_reason"], cut_off["stop_sequence"]) == ("max_tokens", None)
    stopped = both(one, stop_sequences=["two", "zzz"])
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", "two")
    assert stopped["content"] == [{"type": "text", "text": "one "}]


def test_AN_09_thinking_then_text(server):
    message = both(server("<think>r</think>hi", 2))
    assert [b["type"] for b in message["content"]] == ["thinking", "text"]
    assert message["content"][0]["thinking"] == "r" and message["content"][1]["text"] == "hi"
    assert len(message["content"][0]["signature"]) == 64
    assert message["usage"]["output_tokens_details"]["thinking_tokens"] > 0


def test_AN_07_thinking_that_was_cut(server):
    message = both(server("<think>abc and much more"), max_tokens=5)
    assert [b["type"] for b in message["content"]] == ["thinking"] and message["content"][0]["thinking"].startswith("abc")
    assert message["content"][0]["signature"] and message["stop_reason"] == "max_tokens"


def test_AN_08_no_empty_block_between_thinking_and_a_call(server):
    message = both(server("<think>I think</think>\n\n" + call("weather", city="A")), tools=TOOLS)
    assert [b["type"] for b in message["content"]] == ["thinking", "tool_use"]
    assert message["content"][1] == {"type": "tool_use", "name": "weather", "input": {"city": "A"}} and message["stop_reason"] == "tool_use"


def test_RS_17_empty_thinking(server):
    assert both(server("<think></think>hi"))["content"] == [{"type": "text", "text": "hi"}]
    assert both(server("<think>\n\n</think>\n\nhi"))["content"][0]["text"].strip() == "hi"


def test_no_text_at_all(start):
    assert both(start([{"pieces": []}]))["content"] == []


def test_thinking_that_is_not_shown(server):
    block = both(server("<think>secret</think>hi"), thinking={"type": "adaptive", "display": "omitted"})["content"][0]
    assert block["thinking"] == "" and block["signature"]


def test_calls(server):
    text = "Both:" + call("weather", city="A") + "\n" + call("time", city="B")
    one = server(text)
    message = both(one, tools=TOOLS)
    assert [b["type"] for b in message["content"]] == ["text", "tool_use", "tool_use"] and message["stop_reason"] == "tool_use"
    single = both(one, tools=TOOLS, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert [b["type"] for b in single["content"]] == ["text", "tool_use"] and single["stop_reason"] == "tool_use"
    assert [b["type"] for b in both(one)["content"]] == ["text"], "without tools there are no calls"


def test_TC_08_with_tool_choice_none_there_are_no_calls(server):
    one = server(call("weather", city="A"))
    message = both(one, tools=TOOLS, tool_choice={"type": "none"})
    assert [b["type"] for b in message["content"]] == ["text"] and message["stop_reason"] == "end_turn"
    assert "tools:" not in prompt_of(one, tools=TOOLS, tool_choice={"type": "none"})


def test_TC_36_ids_of_calls(server):
    ids = [b["id"] for b in ask(server(call("weather", city="A") + call("time", city="B")), tools=TOOLS).json["content"]]
    assert len(set(ids)) == 2 and all(i.startswith("toolu_") and len(i) == 15 and i[6:].isalnum() for i in ids)


def test_a_call_that_was_cut(server):
    one = server(call("weather", city="Paris and more"))
    message = both(one, tools=TOOLS, max_tokens=20)
    assert message["stop_reason"] == "max_tokens" and message["content"] == [{"type": "tool_use", "name": "weather", "input": {}}]
    parts = [e["delta"]["partial_json"] for e in events(ask(one, tools=TOOLS, max_tokens=20, stream=True)) if e["type"] == "content_block_delta"]
    assert "".join(parts).startswith('{"city": "Par')


def test_tool_input_streams(server):
    stream = events(ask(server(call("weather", city="x" * 2000), 10), tools=TOOLS, stream=True, max_tokens=1000))
    assert len([e for e in stream if e["type"] == "content_block_delta"]) >= 50
    assert fold(stream)["content"][0]["input"] == {"city": "x" * 2000}


def test_the_conversation_reaches_the_template(server):
    one = server("x")
    history = [{"role": "user", "content": "report"},
               {"role": "assistant", "content": [{"type": "text", "text": "wait"}, {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "A"}},
                                                 {"type": "tool_use", "id": "toolu_2", "name": "time", "input": {}}]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sunny"}]},
                                            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "none", "is_error": True},
                                            {"type": "text", "text": "so?"}]},
               {"role": "system", "content": "rhyme"}]
    assert prompt_of(one, messages=history, system=[{"type": "text", "text": "be "}, {"type": "text", "text": "kind"}]) == (
        "system: be kind\nuser: report\nassistant: wait<toolu_1 weather {\"city\": \"A\"}><toolu_2 time {}>\ntool: sunny for toolu_1\n"
        "tool: Error: none for toolu_2\nuser: so?\nsystem: rhyme\nassistant: ")


def test_thinking_and_effort_reach_the_template(server):
    one = server("x")
    assert "thinking" not in prompt_of(one)
    assert "thinking: on\n" in prompt_of(one, thinking={"type": "enabled", "budget_tokens": 1024})
    assert "thinking: off\n" in prompt_of(one, thinking={"type": "disabled"})
    assert "effort: high\n" in prompt_of(one, output_config={"effort": "high"})


def test_AN_23_prefill(server):
    one = server("x")
    history = [{"role": "user", "content": "report"}, {"role": "assistant", "content": "The answer is ("}]
    assert prompt_of(one, messages=history).endswith("assistant: The answer is (")
    # Consecutive user messages and an assistant first are what the template makes of them.
    assert prompt_of(one, messages=[{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "report"}, {"role": "user", "content": "b"}]) == (
        "assistant: Hi\nuser: report\nuser: b\nassistant: ")


def test_AN_23_a_template_that_wants_turns(start):
    strict = ("{% for m in messages %}{% if m.role != ['user', 'assistant'][loop.index0 % 2] %}{{ raise_exception('Roles must alternate') }}{% endif %}"
              "{{ m.role }}: {{ m.content }}\n{% endfor %}")
    one = start({"template": strict, "replies": [{"report": True}]})
    assert prompt_of(one, messages=[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]) == "user: a\n\nb\n"
    assert prompt_of(one, messages=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "assistant", "content": "c"},
                                    {"role": "user", "content": "d"}]) == "user: a\nassistant: b\n\nc\nuser: d\n"
    refused = ask(one, messages=[{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "a"}])
    assert refused.status == 400 and "Roles must alternate" in error_of(refused)["message"]


def test_PC_10_the_billing_header_is_no_part_of_the_prompt(server):
    one = server("x")
    def prompt(cch):
        return prompt_of(one, system=[{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch={cch};"},
                                      {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}])
    assert prompt("6e3f1") == prompt("a02bc") == "system: You are an agent.\nuser: report\nassistant: "


def test_AN_17_thinking_comes_back(server):
    one = server("<think>I think</think>yes")
    first = ask(one).json["content"]
    def history(block):
        return [{"role": "user", "content": "report"}, {"role": "assistant", "content": [block, first[1]]}, {"role": "user", "content": "b"}]
    assert "assistant: (I think) yes\n" in prompt_of(one, messages=history(first[0]))
    assert "assistant: yes\n" in prompt_of(one, messages=history({"type": "redacted_thinking", "data": "abc"}))
    for changed in ({"thinking": "I thought"}, {"signature": "0" * 64}, {"signature": ""}, {"signature": first[0]["signature"][:-1]}):
        refused = ask(one, messages=history({**first[0], **changed}))
        assert refused.status == 400 and "messages.1.content.0: Invalid `signature` in `thinking` block" in error_of(refused)["message"]
    stream = fold(events(ask(one, stream=True)))
    assert stream["content"][0] == first[0], "the signature of a stream is the same"


def test_signatures_outlive_a_restart(start, tmp_path):
    def asked(*arguments, **fields):
        server = start({"reasoning_format": "think", "replies": [{"pieces": cut("<think>I think</think>yes")}]}, *arguments)
        answer = ask(server, **fields)
        server.stop()
        return answer

    def history(block):
        return [{"role": "user", "content": "a"}, {"role": "assistant", "content": [block, {"type": "text", "text": "b"}]}, {"role": "user", "content": "c"}]

    state = ("--state-dir", str(tmp_path / "state"))
    block = asked(*state).json["content"][0]
    assert asked(*state, messages=history(block)).status == 200
    assert asked("--state-dir", str(tmp_path / "other"), messages=history(block)).status == 400
    key = ("--signing-key", "a key of both servers")
    block = asked(*key).json["content"][0]
    assert asked(*key, messages=history(block)).status == 200 and asked(messages=history(block)).status == 400


def test_AN_21_images(server):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    refused = ask(server("x"), messages=[{"role": "user", "content": [{"type": "text", "text": "see"}, image]}])
    assert refused.status == 400 and "reads no image blocks" in error_of(refused)["message"]


def test_AN_28_tools_of_the_official_service(server):
    for tool in ({"type": "web_search_20250305", "name": "web_search"}, {"type": "bash_20250124", "name": "bash"},
                 {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}):
        refused = ask(server("x"), tools=[tool])
        assert refused.status == 400 and tool["type"] in error_of(refused)["message"]


def test_AN_02_names_of_hosted_models(start):
    script = {"model": "org/own", "replies": [{"pieces": ["a"]}]}
    one = start(script)
    for name in ("claude-sonnet-4-5-20250929", "claude-3-5-haiku-latest", "gpt-4o", "org/own", "default"):
        answer = ask(one, model=name)
        assert answer.status == 200 and answer.json["model"] == "org/own", name
        assert one.chat(model=name).json["model"] == "org/own"
    for name in ("other", "gpt-oss-20b", "claude"):
        assert ask(one, model=name).status == 404 and one.chat(model=name).status == 404, name
    off = start(script, "--hosted-model-names=false")
    assert ask(off, model="claude-sonnet-5").status == 404 and off.chat(model="gpt-4o").status == 404


def test_AN_03_errors(start, server):
    one = server("x")
    assert error_of(ask(one, max_tokens=...)) == {"type": "invalid_request_error", "message": "expected max_tokens to be a whole number of at least 1; got nothing"}
    for path in ("/v1/messages", "/v1/messages/count_tokens", "/v1/v1/messages"):
        broken = one.post(path, '{"model": ')
        assert broken.status == 400 and error_of(broken)["type"] == "invalid_request_error"
        assert one.post(path, b"").status == 400
        wrong = one.get(path)
        assert wrong.status == 405 and error_of(wrong)["type"] == "invalid_request_error" and "POST" in wrong.headers["allow"]
    missing = ask(one, model="nothing")
    assert missing.status == 404 and error_of(missing)["type"] == "not_found_error"
    unknown = one.post("/v1/messages/batches", {})
    assert unknown.status == 404 and error_of(unknown)["type"] == "not_found_error"
    assert "error" in one.get("/v1/nothing").json and "type" not in one.get("/v1/nothing").json, "others keep their shape"
    long = ask(start({"context_length": 50, "replies": [{"pieces": ["a"]}]}), "word " * 20)
    assert long.status == 400 and "context of 50 tokens" in error_of(long)["message"]
    small = start([{"pieces": ["a"]}], "--max-body-bytes", "2000")
    large = ask(small, "x" * 3000)
    assert large.status == 413 and error_of(large)["type"] == "request_too_large"
    keyed = start([{"pieces": ["a"]}], "--api-key", "secret")
    for headers in ({}, {"x-api-key": "wrong"}):
        refused = ask(keyed, headers=headers)
        assert refused.status == 401 and error_of(refused)["type"] == "authentication_error"
        assert error_of(keyed.get("/v1/models", headers={**headers, "anthropic-version": "2023-06-01"}))["type"] == "authentication_error"
    assert ask(keyed, headers={"x-api-key": "secret"}).status == 200
    assert error_of(ask(one, headers={"Host": "evil.example"}))["type"] == "permission_error"


def test_an_error_in_a_stream(start):
    stream = events(ask(start([{"pieces": ["a"], "finish": "error", "error": "lost"}]), stream=True))
    assert stream[0]["type"] == "message_start" and stream[-1]["type"] == "error" and stream[-1]["error"]["type"] == "api_error"
    assert ask(start([{"pieces": ["a"], "finish": "error", "error": "lost"}])).status == 500


def test_a_full_queue_is_overloaded(start):
    one = start({"max_num_seqs": 1, "max_queue": 0, "replies": [{"pieces": ["a"], "delays_ms": 60000}]})
    refused = ask(one)
    assert refused.status == 529 and error_of(refused)["type"] == "overloaded_error" and int(refused.headers["retry-after"]) >= 1
    assert ask(one, stream=True).status == 529


def test_pings(start):
    one = start([{"pieces": ["a", "b"], "delays_ms": [0, 400]}], "--sse-keepalive-ms", "50")
    stream = events(ask(one, stream=True))
    assert {"type": "ping"} in stream
    assert fold(stream)["content"] == [{"type": "text", "text": "ab"}]


def test_AN_25_a_query_and_a_doubled_root(server):
    one = server("hi")
    for path in ("/v1/messages?beta=true", "/v1/v1/messages", "/v1/v1/messages?beta=true"):
        assert ask(one, path=path).json["content"] == [{"type": "text", "text": "hi"}]
    for path in ("/v1/messages/count_tokens?beta=true", "/v1/v1/messages/count_tokens"):
        assert ask(one, path=path).json == {"input_tokens": 20}


def test_AN_13_count_tokens(server):
    one = server("hi")
    history = [{"role": "user", "content": "weather in Paris?"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]}]
    for fields in ({}, {"system": "be kind"}, {"tools": TOOLS}, {"thinking": {"type": "adaptive"}}, {"messages": history, "tools": TOOLS}):
        counted = ask(one, path="/v1/messages/count_tokens", max_tokens=..., **fields)
        assert counted.status == 200 and counted.headers["request-id"], counted.body
        assert counted.json == {"input_tokens": ask(one, **fields).json["usage"]["input_tokens"]}, fields


def test_AN_14_count_tokens_of_nothing(server):
    one = server("hi")
    for messages in ([], ..., None, "hi"):
        refused = ask(one, path="/v1/messages/count_tokens", messages=messages)
        assert refused.status == 400 and error_of(refused)["type"] == "invalid_request_error"
    assert ask(one, path="/v1/messages/count_tokens", model="nothing").status == 404


def test_count_tokens_of_what_a_template_refuses(start):
    one = start({"template": "{{ raise_exception('No!') }}", "replies": [{"pieces": ["a"]}]})
    refused = ask(one, path="/v1/messages/count_tokens")
    assert refused.status == 400 and "No!" in error_of(refused)["message"]
    short = start({"context_length": 30, "replies": [{"pieces": ["a"]}]})
    assert ask(short, "word " * 20, path="/v1/messages/count_tokens").json["input_tokens"] > 100, "longer than the context"


def test_AN_27_the_same_conversation_over_both_surfaces(server):
    one = server("hi")
    ours = [{"role": "user", "content": "weather in Paris?"},
            {"role": "assistant", "content": [{"type": "text", "text": "wait"}, {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}, {"type": "text", "text": "and?"}]}]
    theirs = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "weather in Paris?"},
              {"role": "assistant", "content": "wait", "tool_calls": [{"id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}]},
              {"role": "tool", "tool_call_id": "toolu_1", "content": "sunny"}, {"role": "user", "content": "and?"}]
    counted = ask(one, path="/v1/messages/count_tokens", messages=ours, system="be kind", tools=TOOLS).json["input_tokens"]
    answer = one.post("/v1/chat/completions", {"messages": theirs, "tools": OPENAI_TOOLS})
    assert answer.json["usage"]["prompt_tokens"] == counted > 100


def test_ignored_fields_are_named(server):
    answer = ask(server("x"), seed=3, metadata={"user_id": "u"}, context_management={"edits": [{"type": "clear_tool_uses_20250919"}]})
    assert answer.headers["x-penstock-ignored"] == "seed, context_management"


def test_models_in_both_shapes(start):
    one = start({"model": "org/own", "names": ["own"], "replies": [{"pieces": ["a"]}]})
    version = {"anthropic-version": "2023-06-01"}
    page = one.get("/v1/models", headers=version).json
    assert [m["id"] for m in page["data"]] == ["org/own"] and page["data"][0]["type"] == "model" and page["has_more"] is False
    assert one.get("/v1/models/own", headers=version).json["id"] == "org/own"
    missing = one.get("/v1/models/nothing", headers=version)
    assert missing.status == 404 and error_of(missing)["type"] == "not_found_error"
    assert one.get("/v1/models").json["object"] == "list" and one.get("/v1/models/nothing").error["code"] == "model_not_found"


def test_a_client_that_goes_away(start):
    one = start([{"pieces": ["a", "b"], "delays_ms": [0, 600000]}])
    body = json.dumps({"model": "scripted", "max_tokens": 9, "stream": True, "messages": HI}).encode()
    connection = one.connect()
    connection.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    connection.recv(100)
    connection.close()
    one.wait_metric("requests_running", 0)


# The official SDK.

def sdk(server, kind="Anthropic", **options):
    return getattr(pytest.importorskip("anthropic"), kind)(base_url=server.url, api_key=options.pop("api_key", "unused"), max_retries=0, **options)


def test_the_sdk_whole_and_streamed(server):
    client = sdk(server("<think>I think</think>hello you"))
    message = client.messages.create(model="scripted", max_tokens=50, messages=HI)
    assert [b.type for b in message.content] == ["thinking", "text"] and message.content[1].text == "hello you"
    assert message.stop_reason == "end_turn" and message.stop_sequence is None and message.usage.input_tokens == 20
    assert message._request_id
    with client.messages.stream(model="scripted", max_tokens=50, messages=HI) as stream:
        assert "".join(stream.text_stream) == "hello you"
        final = stream.get_final_message()
    assert [b.model_dump() for b in final.content] == [b.model_dump() for b in message.content]
    assert final.usage.output_tokens == message.usage.output_tokens and final.stop_reason == "end_turn"
    kinds = [e.type for e in client.messages.create(model="scripted", max_tokens=50, messages=HI, stream=True)]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]


def test_the_sdk_runs_a_tool_loop(start):
    server = start({"tool_format": "hermes", "reasoning_format": "think", "replies": [
        {"match": "sunny", "pieces": ["It is ", "sunny."]}, {"pieces": cut("<think>ask</think>" + call("weather", city="Paris"))}]})
    client = sdk(server)
    messages = [{"role": "user", "content": "weather in Paris?"}]
    first = client.messages.create(model="claude-sonnet-5", max_tokens=200, messages=messages, tools=TOOLS, thinking={"type": "enabled", "budget_tokens": 1024})
    assert first.stop_reason == "tool_use"
    wanted = first.content[1]
    assert wanted.name == "weather" and wanted.input == {"city": "Paris"}
    messages += [{"role": "assistant", "content": first.content},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": wanted.id, "content": "sunny"}]}]
    last = client.messages.create(model="claude-sonnet-5", max_tokens=200, messages=messages, tools=TOOLS)
    assert last.content[0].text == "It is sunny." and last.stop_reason == "end_turn"


def test_the_sdk_streams_tool_input(server):
    with sdk(server(call("weather", city="Paris"))).messages.stream(model="scripted", max_tokens=200, messages=HI, tools=TOOLS) as stream:
        parts = [e.partial_json for e in stream if e.type == "input_json"]
        final = stream.get_final_message()
    assert len(parts) > 2 and json.loads("".join(parts)) == {"city": "Paris"}
    assert final.content[0].input == {"city": "Paris"} and final.stop_reason == "tool_use"


def test_the_async_sdk(server):
    one = server("hello you")

    async def run():
        client = sdk(one, "AsyncAnthropic")
        message = await client.messages.create(model="scripted", max_tokens=50, messages=HI)
        async with client.messages.stream(model="scripted", max_tokens=50, messages=HI) as stream:
            text = "".join([t async for t in stream.text_stream])
        counted = await client.messages.count_tokens(model="scripted", messages=HI)
        return message.content[0].text, text, counted.input_tokens

    assert asyncio.run(run()) == ("hello you", "hello you", 20)


def test_the_sdk_counts_and_lists(server):
    client = sdk(server("hi"))
    assert client.messages.count_tokens(model="scripted", messages=HI, system="be kind", tools=TOOLS).input_tokens > 100
    assert [m.id for m in client.models.list()] == ["scripted"]
    model = client.models.retrieve("scripted")
    assert model.max_input_tokens == 4096 and model.created_at.year >= 2024


def test_the_sdks_exceptions(start, server):
    anthropic = pytest.importorskip("anthropic")
    client = sdk(server("hi"))
    def fails(kind, status, error_type, client=client, **fields):
        with pytest.raises(kind) as caught:
            client.messages.create(**{"model": "scripted", "max_tokens": 5, "messages": HI, **fields})
        assert caught.value.status_code == status and caught.value.body["error"]["type"] == error_type and caught.value.request_id
    fails(anthropic.BadRequestError, 400, "invalid_request_error", messages=[])
    fails(anthropic.NotFoundError, 404, "not_found_error", model="nothing")
    keyed = start([{"pieces": ["a"]}], "--api-key", "secret")
    fails(anthropic.AuthenticationError, 401, "authentication_error", client=sdk(keyed, api_key="wrong"))
    assert sdk(keyed, api_key="secret").messages.create(model="scripted", max_tokens=5, messages=HI).content[0].text == "a"
    broken = sdk(start([{"pieces": ["a"], "finish": "error", "error": "lost"}]))
    fails(anthropic.InternalServerError, 500, "api_error", client=broken)
    with pytest.raises(anthropic.APIStatusError):
        for _ in broken.messages.create(model="scripted", max_tokens=5, messages=HI, stream=True):
            pass


def test_a_coding_agents_request(server):
    """Of the shape that coding agents send, unchanged, through the SDK's beta messages (AN-25)."""
    tools = [{"name": f"tool_{i}", "description": f"Tool {i}. " + "It does a thing. " * 20, "input_schema": {
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": False, "required": ["file_path"],
        "properties": {"file_path": {"type": "string", "description": "The absolute path"}, "edits": {"type": "array", "items": {"type": "object"}}}}} for i in range(40)]
    tools[-1]["cache_control"] = {"type": "ephemeral"}
    system = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=6e3f1;"},
              {"type": "text", "text": "You are an agent for coding.", "cache_control": {"type": "ephemeral"}},
              {"type": "text", "text": "\nUse the tools. " * 200, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    messages = [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>\nfiles\n</system-reminder>"},
                                             {"type": "text", "text": "fix the bug", "cache_control": {"type": "ephemeral"}}]}]
    one = server("<think>look</think>I look." + call("tool_7", file_path="/a/b.py", edits=[{"old": "x", "new": "y\n\"z\""}]), context_length=100000)
    request = dict(model="claude-opus-4-5-20251101", max_tokens=32000, system=system, messages=messages, tools=tools, temperature=1,
                     metadata={"user_id": "user_abc_account__session_def"}, thinking={"type": "enabled", "budget_tokens": 31999},
                     context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]})
    betas = "claude-code-20250219,interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14,context-management-2025-06-27"
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": betas, "x-app": "cli", "anthropic-dangerous-direct-browser-access": "true"}
    counted = one.post("/v1/messages/count_tokens?beta=true", {k: request[k] for k in ("model", "system", "messages", "tools", "thinking")}, headers=headers)
    assert counted.status == 200 and counted.json["input_tokens"] > 20000
    answer = one.post("/v1/messages?beta=true", {**request, "stream": True}, headers=headers)
    message = fold(events(answer))
    assert "x-penstock-ignored" not in answer.headers
    assert [b["type"] for b in message["content"]] == ["thinking", "text", "tool_use"] and message["stop_reason"] == "tool_use"
    assert message["content"][2]["input"] == {"file_path": "/a/b.py", "edits": [{"old": "x", "new": "y\n\"z\""}]}
    assert message["usage"]["input_tokens"] == counted.json["input_tokens"]
