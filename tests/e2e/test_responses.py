"""The Responses surface through the official SDK: answers, streams, conversations, background, what is stored."""
import asyncio
import json
import time

import pytest

TOOLS = [{"type": "function", "name": "weather", "description": "of a city", "strict": False,
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]
# A template that shows all there is of a conversation.
TEMPLATE = ("{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}{{ m.content }}"
            "{% for c in m.tool_calls or [] %}<{{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }}>{% endfor %}"
            "{% if m.tool_call_id %}@{{ m.tool_call_id }}{% endif %}{{ '\\n' }}{% endfor %}{% if tools %}{{ tools | tojson }}{{ '\\n' }}{% endif %}[assistant]")


def call(name, **arguments):
    return f'<tool_call>\n{json.dumps({"name": name, "arguments": arguments})}\n</tool_call>'


def cut(text, size=3):
    return [text[i:i + size] for i in range(0, len(text), size)]


SCRIPT = {
    "model": "org/scripted", "names": ["scripted"], "context_length": 4096, "tool_format": "hermes", "reasoning_format": "think",
    "template": TEMPLATE,
    "replies": [
        {"match": "report", "report": True},
        {"match": "[tool]", "pieces": cut("It is sunny.")},
        {"match": "two calls", "pieces": cut("<think>both</think>Well." + call("weather", city="A") + call("weather", city="B"))},
        {"match": "call it", "pieces": cut("<think>ask</think>" + call("weather", city="Paris"))},
        {"match": "grouped", "pieces": cut(call("crm__find", who="x"))},
        {"match": "think", "pieces": cut("<think>let me see</think>It is 42.")},
        {"match": "slow", "pieces": ["a", "b", "c"], "delays_ms": [0, 0, 60000]},
        {"match": "steady", "pieces": ["word "], "repeat": 50, "delays_ms": 20},
        {"match": "fails", "pieces": ["a", "b"], "finish": "error", "error": "broken"},
        {"match": "nothing", "pieces": []},
        {"pieces": ["Hel", "lo", ", ", "world"]},
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from scripted_server import Server
    one = Server(SCRIPT, tmp_path_factory.mktemp("responses"))
    yield one
    one.stop()


@pytest.fixture(scope="module")
def client(server):
    return server.openai()


@pytest.fixture
def restartable(tmp_path):
    """start(): a server over the same folder of state; the one before is killed."""
    from scripted_server import Server
    servers = []

    def start():
        if servers:
            servers[-1].kill()
        servers.append(Server(SCRIPT, tmp_path, ["--state-dir", str(tmp_path / "state"), "--drain-timeout-ms", "200"]))
        return servers[-1]

    yield start
    for one in servers:
        one.stop()


def refused(function, **arguments):
    """Status, param and message of the error."""
    import openai
    with pytest.raises(openai.APIStatusError) as error:
        function(**arguments)
    body = error.value.body
    assert set(body) == {"message", "type", "param", "code"}
    return error.value.status_code, body["param"], body["message"]


def raw_events(server, **body):
    """The events of a stream as they are on the wire: [(event line, JSON)]."""
    answer = server.post("/v1/responses", {"stream": True, **body})
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/event-stream")
    return parse_events(answer.body)


def parse_events(body):
    events = []
    for frame in body.decode().split("\n\n"):
        if frame and not frame.startswith(":"):
            first, second = frame.split("\n")
            events.append((first.removeprefix("event: "), json.loads(second.removeprefix("data: "))))
    return events


def without_ids(value):
    """The same for every run: ids, times and the receipt left out."""
    if isinstance(value, dict):
        return {k: without_ids(v) for k, v in value.items()
                if k not in ("id", "item_id", "call_id", "created_at", "completed_at", "penstock", "previous_response_id")}
    return [without_ids(v) for v in value] if isinstance(value, list) else value


def prompt_of(client, **fields):
    """The prompt that reaches the model."""
    return json.loads(client.responses.create(model="scripted", **fields).output_text)["prompt"]


# --- answers ----------------------------------------------------------------------------------------------------------

def test_a_whole_answer_has_all_that_the_official_one_has(client):
    response = client.responses.create(model="scripted", input="hi", metadata={"a": "b"}, instructions="be kind", user="u",
                                       temperature=0.5, max_output_tokens=50)
    assert response.output_text == "Hello, world" and response.status == "completed" and response.object == "response"
    assert response.id.startswith("resp_") and response.model == "org/scripted" and response.error is None
    assert (response.metadata, response.instructions, response.user) == ({"a": "b"}, "be kind", "u")
    assert (response.temperature, response.max_output_tokens, response.store) == (0.5, 50, True)
    assert response.incomplete_details is None and response.tools == [] and response.tool_choice == "auto"
    assert response.parallel_tool_calls is True and response.truncation == "disabled" and response.text.format.type == "text"
    assert abs(response.created_at - time.time()) < 600 and response.completed_at >= response.created_at
    assert response.usage.input_tokens > 0 and response.usage.output_tokens == 4
    assert response.usage.total_tokens == response.usage.input_tokens + 4
    assert (response.usage.input_tokens_details.cached_tokens, response.usage.output_tokens_details.reasoning_tokens) == (0, 0)
    (message,) = response.output
    assert message.id.startswith("msg_") and (message.type, message.role, message.status) == ("message", "assistant", "completed")
    assert message.content[0].annotations == []


def test_the_types_of_the_sdk_accept_it(client):
    """The SDK builds its objects without a look at the values; here they are looked at."""
    from openai.types.responses import Response
    for text in ("hi", "think", "two calls"):
        raw = client.responses.with_raw_response.create(model="scripted", input=text, tools=TOOLS, store=False)
        Response.model_validate(json.loads(raw.text), strict=True)


@pytest.mark.parametrize("text", ["hi", "think", "call it", "two calls", "nothing"])
def test_streamed_whole_and_stored_are_the_same(client, text):
    whole = client.responses.create(model="scripted", input=text, tools=TOOLS)
    with client.responses.stream(model="scripted", input=text, tools=TOOLS) as stream:
        types = [event.type for event in stream]
        streamed = stream.get_final_response()
    assert types[0] == "response.created" and types[-1] == "response.completed"
    wholes = without_ids(whole.to_dict())
    assert without_ids({k: v for k, v in streamed.to_dict().items() if k != "output"}) == {k: v for k, v in wholes.items() if k != "output"}
    stored = client.responses.retrieve(streamed.id)
    assert without_ids(stored.to_dict()) == wholes
    assert [item.id for item in stored.output] == [item.id for item in streamed.output]


def test_OA_18_the_official_order_with_rising_numbers(server):
    events = raw_events(server, input="hi")
    names = [name for n, (name, _) in enumerate(events) if n == 0 or name != events[n - 1][0]]
    assert names == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        "response.output_text.delta", "response.output_text.done", "response.content_part.done",
        "response.output_item.done", "response.completed"]
    assert [event["sequence_number"] for _, event in events] == list(range(len(events)))
    assert all(event["type"] == name for name, event in events)
    created, done = events[0][1]["response"], events[-1][1]["response"]
    assert created["status"] == "in_progress" and created["output"] == [] and created["usage"] is None
    assert done["status"] == "completed" and done["output"][0] == events[-2][1]["item"]
    assert "".join(event["delta"] for name, event in events if name.endswith("text.delta")) == "Hello, world"


def test_OA_19_ST_09_reasoning_comes_first_and_by_one_name(server, client):
    events = raw_events(server, input="think")
    names = [name for name, _ in events]
    assert names.index("response.reasoning_text.delta") < names.index("response.reasoning_text.done") < names.index("response.output_text.delta")
    assert not any("summary" in name for name in names), "a client that prints both would print it twice"
    response = client.responses.create(model="scripted", input="think")
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output[0].id.startswith("rs_") and response.output[0].content[0].text == "let me see"
    assert response.output_text == "It is 42."
    details = response.usage.output_tokens_details
    assert 0 < details.reasoning_tokens < response.usage.output_tokens


def test_OA_19_truncated_in_its_reasoning_it_is_incomplete_in_both_modes(server, client):
    whole = client.responses.create(model="scripted", input="think", max_output_tokens=5)
    events = raw_events(server, input="think", max_output_tokens=5)
    assert events[-1][0] == "response.incomplete"
    streamed = events[-1][1]["response"]
    assert whole.status == streamed["status"] == "incomplete"
    assert whole.incomplete_details.reason == streamed["incomplete_details"]["reason"] == "max_output_tokens"
    assert [(i.type, i.status) for i in whole.output] == [("reasoning", "incomplete")]
    assert without_ids(streamed["output"]) == without_ids(whole.to_dict()["output"])
    assert client.responses.retrieve(whole.id).status == "incomplete"


def test_OA_22_a_failure_is_an_event_and_not_a_broken_stream(server, client):
    events = raw_events(server, input="fails")
    name, last = events[-1]
    assert name == "response.failed" and last["response"]["status"] == "failed"
    assert last["response"]["error"]["code"] == "server_error" and "broken" in last["response"]["error"]["message"]
    assert last["response"]["output"][0]["status"] == "incomplete"
    stored = client.responses.retrieve(last["response"]["id"])
    assert stored.status == "failed" and "broken" in stored.error.message
    status, _, message = refused(client.responses.create, model="scripted", input="fails")
    assert status == 500 and "broken" in message


def test_log_probabilities(client):
    response = client.responses.create(model="scripted", input="hi", include=["message.output_text.logprobs"], top_logprobs=0)
    entries = response.output[0].content[0].logprobs
    assert [e.token for e in entries] == ["Hel", "lo", ", ", "world"] and entries[0].bytes == [72, 101, 108]
    assert client.responses.create(model="scripted", input="hi").output[0].content[0].logprobs == []


def test_errors_before_the_answer_are_errors_of_http(server, client):
    for stream in (False, True):
        assert refused(client.responses.create, model="unknown", input="x", stream=stream)[:2] == (404, "model")
        status, _, message = refused(client.responses.create, model="scripted", input="x" * 5000, stream=stream)
        assert status == 400 and "context" in message
    assert refused(client.responses.create, model="scripted", input=[{"role": "user", "content": [
        {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}])[:2] == (400, "input[0].content[0]")


def test_what_does_nothing_is_named(server):
    answer = server.post("/v1/responses", {"input": "hi", "tools": [{"type": "web_search"}], "surprise": 1, "store": False})
    assert answer.status == 200 and answer.headers["x-penstock-ignored"] == "surprise, tools[0].web_search"
    assert answer.json["tools"] == []


# --- tools ------------------------------------------------------------------------------------------------------------

def test_TC_36_a_loop_of_function_calls(client):
    items = [{"role": "user", "content": "call it"}]
    first = client.responses.create(model="scripted", input=items, tools=TOOLS)
    reasoning, wanted = first.output
    assert (reasoning.type, wanted.type, wanted.name) == ("reasoning", "function_call", "weather")
    assert json.loads(wanted.arguments) == {"city": "Paris"}
    assert wanted.id.startswith("fc_") and wanted.call_id.startswith("call_") and wanted.status == "completed"
    items += [item.to_dict() for item in first.output]
    items.append({"type": "function_call_output", "call_id": wanted.call_id, "output": "sunny"})
    second = client.responses.create(model="scripted", input=items, tools=TOOLS)
    assert second.output_text == "It is sunny."
    # The same, with the conversation kept by the server.
    third = client.responses.create(model="scripted", previous_response_id=first.id, tools=TOOLS,
                                    input=[{"type": "function_call_output", "call_id": wanted.call_id, "output": "sunny"}])
    assert third.output_text == "It is sunny." and third.usage.input_tokens == second.usage.input_tokens


def test_arguments_stream(server):
    events = raw_events(server, input="call it", tools=TOOLS)
    deltas = [e["delta"] for name, e in events if name == "response.function_call_arguments.delta"]
    (done,) = [e for name, e in events if name == "response.function_call_arguments.done"]
    assert len(deltas) > 1 and "".join(deltas) == done["arguments"] and done["name"] == "weather"


def test_parallel_calls(client):
    response = client.responses.create(model="scripted", input="two calls", tools=TOOLS)
    assert [i.type for i in response.output] == ["reasoning", "message", "function_call", "function_call"], "RS-10"
    assert len({i.call_id for i in response.output[2:]}) == 2
    alone = client.responses.create(model="scripted", input="two calls", tools=TOOLS, parallel_tool_calls=False)
    assert [i.type for i in alone.output] == ["reasoning", "message", "function_call"]


def test_TC_45_groups_of_tools(client):
    tools = [{"type": "namespace", "name": "crm", "description": "customers", "tools": [{"type": "function", "name": "find"}]}]
    first = client.responses.create(model="scripted", input="grouped", tools=tools)
    assert (first.output[0].name, first.output[0].namespace) == ("find", "crm")
    prompt = prompt_of(client, previous_response_id=first.id, tools=tools, input=[
        {"type": "function_call_output", "call_id": first.output[0].call_id, "output": "none"}, {"role": "user", "content": "report"}])
    assert " crm__find " in prompt and '"name": "crm__find"' in prompt


# --- conversations ----------------------------------------------------------------------------------------------------

def test_a_conversation_is_kept_by_the_server(client):
    first = client.responses.create(model="scripted", input="think", instructions="first instructions")
    second = client.responses.create(model="scripted", input="call it", tools=TOOLS, previous_response_id=first.id)
    wanted = second.output[-1]
    prompt = prompt_of(client, previous_response_id=second.id, instructions="last instructions", input=[
        {"type": "function_call_output", "call_id": wanted.call_id, "output": "sunny"}, {"role": "user", "content": "report"}])
    assert prompt == ("[system]last instructions\n[user]think\n[assistant](let me see)It is 42.\n[user]call it\n"
                      f'[assistant](ask)<{wanted.call_id} weather {{"city": "Paris"}}>\n[tool]sunny@{wanted.call_id}\n[user]report\n[assistant]')


def test_previous_responses_that_are_not_there(client):
    assert refused(client.responses.create, model="scripted", input="x", previous_response_id="resp_0")[:2] == (404, "previous_response_id")
    unstored = client.responses.create(model="scripted", input="hi", store=False)
    status, param, message = refused(client.responses.create, model="scripted", input="x", previous_response_id=unstored.id)
    assert (status, param) == (400, "previous_response_id") and "store" in message
    assert refused(client.responses.retrieve, response_id=unstored.id)[0] == 404


def test_an_output_without_its_call(client):
    assert refused(client.responses.create, model="scripted", input=[
        {"type": "function_call_output", "call_id": "call_1", "output": "x"}])[:2] == (400, "input")


def test_a_reference_to_an_item(client):
    first = client.responses.create(model="scripted", input="hi")
    assert prompt_of(client, input=[{"type": "item_reference", "id": first.output[0].id}, {"role": "user", "content": "report"}]) == (
        "[assistant]Hello, world\n[user]report\n[assistant]")
    assert refused(client.responses.create, model="scripted", input=[{"type": "item_reference", "id": "msg_0"}])[:2] == (404, "input")


def test_input_items_come_in_pages(client):
    response = client.responses.create(model="scripted", input=[{"role": "user", "content": str(n)} for n in range(5)])
    page = client.responses.input_items.list(response.id)
    assert [i.content[0].text for i in page.data] == ["4", "3", "2", "1", "0"] and not page.has_more
    items = list(client.responses.input_items.list(response.id, limit=2, order="asc"))
    assert [i.content[0].text for i in items] == ["0", "1", "2", "3", "4"], "the SDK goes on by itself"
    assert all(i.id.startswith("msg_") for i in items)
    assert refused(client.responses.input_items.list, response_id=response.id, limit=0)[:2] == (400, "limit")
    assert refused(client.responses.input_items.list, response_id="resp_0")[0] == 404


def test_a_deleted_response_is_gone(client):
    first = client.responses.create(model="scripted", input="hi")
    second = client.responses.create(model="scripted", input="hi", previous_response_id=first.id)
    client.responses.delete(first.id)
    assert refused(client.responses.retrieve, response_id=first.id)[0] == 404
    assert refused(client.responses.delete, response_id=first.id)[0] == 404
    assert client.responses.retrieve(second.id).output_text == "Hello, world"
    assert refused(client.responses.create, model="scripted", input="x", previous_response_id=second.id)[0] == 404


def test_the_asynchronous_client(server):
    async def talk():
        async with server.openai("AsyncOpenAI") as client:
            first, second = await asyncio.gather(*[client.responses.create(model="scripted", input="hi") for _ in range(2)])
            assert first.output_text == second.output_text == "Hello, world" and first.id != second.id
            async with client.responses.stream(model="scripted", input="think", previous_response_id=first.id) as stream:
                text = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
                final = await stream.get_final_response()
            assert text == final.output_text == "It is 42."
            assert (await client.responses.retrieve(final.id)).output_text == text
    asyncio.run(talk())


# --- background -------------------------------------------------------------------------------------------------------

def wait_for(client, response, *statuses):
    until = time.monotonic() + 60
    while response.status not in statuses:
        assert time.monotonic() < until, response.status
        time.sleep(0.01)
        response = client.responses.retrieve(response.id)
    return response


def test_a_background_response(client):
    response = client.responses.create(model="scripted", input="hi", background=True)
    assert response.status in ("queued", "in_progress", "completed") and response.background
    done = wait_for(client, response, "completed")
    assert done.output_text == "Hello, world" and done.usage.output_tokens == 4
    assert refused(client.responses.create, model="scripted", input="x", background=True, store=False)[:2] == (400, "background")
    assert refused(client.responses.create, model="unknown", input="x", background=True)[0] == 404


def test_CX_14_cancelling_a_background_response(server, client):
    response = client.responses.create(model="scripted", input="slow", background=True)
    wait_for(client, response, "in_progress")
    cancelled = client.responses.cancel(response.id)
    assert cancelled.status == "cancelled" and cancelled.error is None
    server.wait_metric("requests_running", 0)
    assert client.responses.retrieve(response.id).status == "cancelled"
    assert client.responses.cancel(response.id).status == "cancelled", "twice is as once"
    done = wait_for(client, client.responses.create(model="scripted", input="hi", background=True), "completed")
    assert client.responses.cancel(done.id).status == "completed"
    foreground = client.responses.create(model="scripted", input="hi")
    assert refused(client.responses.cancel, response_id=foreground.id)[0] == 400
    assert refused(client.responses.cancel, response_id="resp_0")[0] == 404


def test_a_running_response_is_shown_as_far_as_it_is(client):
    response = client.responses.create(model="scripted", input="slow", background=True)
    until = time.monotonic() + 60
    while client.responses.retrieve(response.id).output_text != "ab":
        assert time.monotonic() < until
        time.sleep(0.01)
    assert refused(client.responses.create, model="scripted", input="x", previous_response_id=response.id)[:2] == (400, "previous_response_id")
    client.responses.delete(response.id)
    assert refused(client.responses.retrieve, response_id=response.id)[0] == 404


def test_CX_14_a_dropped_stream_ends_its_answer_unless_it_is_in_the_background(server, client):
    before = server.metric("requests_cancelled_via_disconnect_total")
    for background in (False, True):
        stream = client.responses.create(model="scripted", input="steady", stream=True, background=background)
        for event in stream:
            if event.type == "response.created":
                response = event.response
            if event.type == "response.output_text.delta":
                break
        stream.close()
        server.wait_metric("requests_running", 0)
        if background:
            assert wait_for(client, response, "completed").output_text == "word " * 50
        else:
            assert refused(client.responses.retrieve, response_id=response.id)[0] == 404
    assert server.metric("requests_cancelled_via_disconnect_total") == before + 1


def test_a_stream_is_gone_on_with(server, client):
    stream = client.responses.create(model="scripted", input="steady", stream=True, background=True)
    seen = []
    for event in stream:
        seen.append(event)
        if event.sequence_number == 8:
            break
    stream.close()
    assert [e.type for e in seen[:3]] == ["response.created", "response.queued", "response.in_progress"]
    response_id = seen[0].response.id
    while_it_runs = list(client.responses.retrieve(response_id, stream=True, starting_after=8))
    wait_for(client, client.responses.retrieve(response_id), "completed")
    afterwards = list(client.responses.retrieve(response_id, stream=True, starting_after=8))
    assert [e.to_dict() for e in while_it_runs] == [e.to_dict() for e in afterwards]
    whole = list(client.responses.retrieve(response_id, stream=True))
    assert [e.to_dict() for e in whole] == [e.to_dict() for e in seen + afterwards]
    assert [e.sequence_number for e in whole] == list(range(len(whole))) and whole[-1].type == "response.completed"
    assert whole[-1].response.output_text == "word " * 50
    foreground = client.responses.create(model="scripted", input="hi")
    assert refused(client.responses.retrieve, response_id=foreground.id, stream=True)[:2] == (400, "stream")


# --- restarts ---------------------------------------------------------------------------------------------------------

def test_what_was_told_of_survives_a_kill(restartable):
    client = restartable().openai()
    first = client.responses.create(model="scripted", input="think")
    second = client.responses.create(model="scripted", input="hi", previous_response_id=first.id)
    done = wait_for(client, client.responses.create(model="scripted", input="steady", background=True), "completed")
    running = client.responses.create(model="scripted", input="slow", background=True, metadata={"a": "b"})
    with client.responses.stream(model="scripted", input="hi") as stream:
        last = stream.get_final_response()
    client = restartable().openai()
    assert client.responses.retrieve(first.id).to_dict() == first.to_dict()
    assert client.responses.retrieve(last.id).output_text == "Hello, world"
    assert client.responses.retrieve(done.id).output_text == "word " * 50
    failed = client.responses.retrieve(running.id)
    assert failed.status == "failed" and failed.error.code == "server_error" and "ended" in failed.error.message
    assert failed.metadata == {"a": "b"}
    assert [i.content[0].text for i in client.responses.input_items.list(running.id)] == ["slow"]
    assert prompt_of(client, input="report", previous_response_id=second.id).startswith(
        "[user]think\n[assistant](let me see)It is 42.\n[user]hi\n[assistant](let me see)It is 42.\n[user]report")


def test_a_second_server_on_the_same_folder_says_so(restartable, tmp_path, start):
    one = restartable()
    one.openai().responses.create(model="scripted", input="hi")
    other = start(SCRIPT, "--state-dir", str(tmp_path / "state"))
    answer = other.post("/v1/responses", {"input": "hi"})
    assert answer.status == 503 and "state_dir" in answer.error["message"]
    assert other.post("/v1/responses", {"input": "hi", "store": False}).status == 200


def test_a_server_that_stops_ends_what_runs_and_keeps_it(restartable):
    one = restartable()
    client = one.openai()
    running = client.responses.create(model="scripted", input="slow", background=True)
    wait_for(client, running, "in_progress")
    one.stop()
    assert restartable().openai().responses.retrieve(running.id).status == "failed"


# --- a real model -----------------------------------------------------------------------------------------------------

def test_smollm2(smollm2, tmp_path):
    from scripted_server import ModelServer
    server = ModelServer(smollm2, tmp_path)
    try:
        client = server.openai()
        def chat(*texts):
            messages = [{"role": "assistant" if n % 2 else "user", "content": text} for n, text in enumerate(texts)]
            return client.chat.completions.create(model=smollm2, messages=messages, temperature=0, max_tokens=24).choices[0].message.content

        first = client.responses.create(model=smollm2, input="What is the capital of France?", temperature=0, max_output_tokens=24)
        assert first.output_text and first.output_text == chat("What is the capital of France?")
        with client.responses.stream(model=smollm2, input="What is the capital of France?", temperature=0, max_output_tokens=24) as stream:
            assert "".join(e.delta for e in stream if e.type == "response.output_text.delta") == first.output_text
        second = client.responses.create(model=smollm2, input="And of Italy?", previous_response_id=first.id, temperature=0, max_output_tokens=24)
        assert second.output_text == chat("What is the capital of France?", first.output_text, "And of Italy?")
        cut_short = client.responses.create(model=smollm2, input="Count to one hundred.", temperature=0, max_output_tokens=3)
        assert cut_short.status == "incomplete" and cut_short.usage.output_tokens == 3
    finally:
        server.stop()
