"""Tool calls and reasoning on the OpenAI surface (TC, RS): the events of an answer, streamed and whole, over a script."""
import json
import threading

import pytest

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
         for name in ("weather", "time")]


def call(name, **arguments):
    return f'<tool_call>\n{json.dumps({"name": name, "arguments": arguments})}\n</tool_call>'


def cut(text, size=3):
    return [text[i:i + size] for i in range(0, len(text), size)]


@pytest.fixture
def server(start):
    """server(text): one whose model writes this, three letters at a time."""
    def make(text, size=3, **reply):
        return start({"tool_format": "hermes", "reasoning_format": "think",
                      "replies": [{"match": "plain please", "pieces": ["just ", "text"]}, {"pieces": cut(text, size), **reply}]})
    return make


def joined_calls(stream):
    """The calls of a stream as its clients put them together."""
    calls = []
    for delta in stream.deltas():
        for part in delta.get("tool_calls", []):
            if part["index"] == len(calls):
                assert part["id"] and part["type"] == "function" and part["function"]["name"], "TC-14: all in the first delta"
                calls.append({"id": part["id"], "name": part["function"]["name"], "arguments": part["function"].get("arguments", "")})
            else:
                assert part["index"] == len(calls) - 1 and set(part) == {"index", "function"} and set(part["function"]) == {"arguments"}
                calls[-1]["arguments"] += part["function"]["arguments"]
    return calls


def both(server, **fields):
    """Content, reasoning, [(name, arguments)], finish reason: the same streamed and whole."""
    whole = server.chat(tools=TOOLS, **fields)
    assert whole.status == 200, whole.body
    choice = whole.json["choices"][0]
    message = choice["message"]
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]
    facts = (message["content"] or "", message.get("reasoning_content", ""), calls, choice["finish_reason"])
    stream = server.stream(tools=TOOLS, **fields)
    reasoning = "".join(d.get("reasoning_content", "") for d in stream.deltas())
    streamed = [(c["name"], c["arguments"]) for c in joined_calls(stream)]
    assert (stream.text(), reasoning, streamed, stream.reason()) == facts
    return facts


def test_TC_29_a_call(server):
    one = server(call("weather", city="Paris"))
    content, _, calls, reason = both(one)
    assert content == "" and reason == "tool_calls"
    assert [(n, json.loads(a)) for n, a in calls] == [("weather", {"city": "Paris"})]
    message = one.chat(tools=TOOLS).json["choices"][0]["message"]
    assert message["content"] is None and message["tool_calls"][0]["type"] == "function"
    assert message["tool_calls"][0]["id"].startswith("call_") and len(message["tool_calls"][0]["id"]) == len("call_") + 9


def test_TC_39_text_before_a_call_goes_out_before_it(server):
    one = server("Let me check." + call("weather", city="Paris"))
    assert both(one)[0] == "Let me check."
    stream = one.stream(tools=TOOLS)
    order = ["call" if "tool_calls" in d else "text" for d in stream.deltas() if d.get("content") or "tool_calls" in d]
    assert order == sorted(order, reverse=True)


def test_TC_12_parallel_tool_calls(server):
    one = server(call("weather", city="A") + "\n" + call("time", city="B"))
    assert [name for name, _ in both(one)[2]] == ["weather", "time"]
    content, _, calls, reason = both(one, parallel_tool_calls=False)
    assert [name for name, _ in calls] == ["weather"] and reason == "tool_calls"


def test_TC_15_a_name_that_is_not_declared_is_text(server):
    text = call("other", a=1)
    content, _, calls, reason = both(server(text))
    assert (content, calls, reason) == (text, [], "stop")


def test_TC_08_with_tool_choice_none_there_are_no_calls(server):
    assert both(server(call("weather", city="A")), tool_choice="none")[2:] == ([], "stop")


def test_TC_15_without_tools_there_are_no_calls(server):
    one = server(call("weather", city="A"))
    assert one.both()[:2] == (call("weather", city="A"), "stop")


def test_TC_17_a_call_inside_the_reasoning_is_none(server):
    one = server("<think>maybe " + call("weather", city="A") + "</think>" + call("weather", city="B"))
    content, reasoning, calls, reason = both(one)
    assert [json.loads(a)["city"] for _, a in calls] == ["B"] and "maybe" in reasoning and content == ""


def test_TC_21_a_long_argument_streams(server):
    text = "x" * 2000
    one = server(call("weather", city=text), size=10)
    stream = one.stream(tools=TOOLS)
    parts = [d for d in stream.deltas() if "tool_calls" in d]
    assert len(parts) >= 10
    assert json.loads(joined_calls(stream)[0]["arguments"]) == {"city": text}


def test_TC_30_cut_inside_the_arguments(server):
    one = server(call("weather", city="Paris and more"))
    content, _, calls, reason = both(one, max_tokens=18)
    assert reason == "length" and calls[0][0] == "weather"
    with pytest.raises(json.JSONDecodeError):
        json.loads(calls[0][1])


def test_RS_10_RS_11_reasoning_then_text_then_a_call(server):
    one = server("<think>I think</think>Well:" + call("weather", city="A"))
    content, reasoning, calls, reason = both(one)
    assert (content, reasoning, reason) == ("Well:", "I think", "tool_calls") and len(calls) == 1
    usage = one.chat(tools=TOOLS).json["usage"]
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]


def test_ST_09_reasoning_has_one_name(server):
    for delta in server("<think>r</think>hi").stream().deltas():
        assert "reasoning" not in delta and not ("content" in delta and "reasoning_content" in delta), delta


def test_RS_07_text_without_tags_is_content(server):
    assert both(server("plain answer"))[:2] == ("plain answer", "")


def test_SP_03_SP_09_a_stop_string_is_for_the_text(server):
    one = server("<think>a.b</think>c" + call("weather", city="A.B") + "d.e")
    content, reasoning, calls, _ = both(one, stop=".")
    assert reasoning == "a.b" and content.startswith("c") and "e" not in content
    assert json.loads(calls[0][1]) == {"city": "A.B"}


def test_ST_26_log_probabilities_are_the_texts(server):
    one = server("<think>think</think>hello you", size=2)
    entries = one.chat(logprobs=True, top_logprobs=0).json["choices"][0]["logprobs"]["content"]
    assert "".join(e["token"] for e in entries).endswith("hello you") and not any("thi" in e["token"] for e in entries)


def test_BC_04_a_plain_chat_and_a_call_in_one_batch(server):
    one = server(call("weather", city="A"), delays_ms=5)
    answers = {}
    threads = [threading.Thread(target=lambda n=n, f=f: answers.update({n: one.chat(**f)})) for n, f in
               {"call": {"tools": TOOLS}, "plain": {"text": "plain please"}}.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers["plain"].text == "just text"
    assert answers["call"].json["choices"][0]["finish_reason"] == "tool_calls"


def test_RS_14_two_streams_do_not_mix(server):
    one = server("<think>one two three</think>four", delays_ms=3)
    streams = [None, None]
    def run(i):
        streams[i] = one.stream()
    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream in streams:
        assert stream.text() == "four" and "".join(d.get("reasoning_content", "") for d in stream.deltas()) == "one two three"


def test_the_sdk_runs_a_tool_loop(start):
    """What a client does: ask, run the call, send its result, read the answer."""
    server = start({"tool_format": "hermes", "replies": [
        {"match": "sunny", "pieces": ["It is ", "sunny."]}, {"pieces": cut(call("weather", city="Paris"))}]})
    client = server.openai()
    messages = [{"role": "user", "content": "weather in Paris?"}]
    first = client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)
    wanted = first.choices[0].message.tool_calls[0]
    assert wanted.function.name == "weather" and json.loads(wanted.function.arguments) == {"city": "Paris"}
    messages += [first.choices[0].message, {"role": "tool", "tool_call_id": wanted.id, "content": [{"type": "text", "text": "sunny"}]}]
    last = client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)
    assert last.choices[0].message.content == "It is sunny." and last.choices[0].finish_reason == "stop"


def test_the_sdk_streams_calls(server):
    with server(call("weather", city="Paris")).openai().chat.completions.stream(
            model="scripted", messages=[{"role": "user", "content": "hi"}], tools=TOOLS) as stream:
        for _ in stream:
            pass
        done = stream.get_final_completion()
    assert done.choices[0].message.tool_calls[0].function.name == "weather"
    assert done.choices[0].finish_reason == "tool_calls"
