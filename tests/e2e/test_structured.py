"""Answers held to schemas and grammars: over the scripted engine what the surface does with them, over real weights that every
answer follows its own, in batches with free ones, streamed or not, with drafts and without."""
import json
import os
import re
import threading

import jsonschema
import pytest
from openai import BadRequestError, OpenAI
from scripted_server import BUILD, ModelServer

pytestmark = pytest.mark.skipif(not (BUILD / "penstock").exists(), reason="build/penstock is not built")
MODEL = os.environ.get("PENSTOCK_TEST_MODEL", "smollm2")

PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
                                           "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3}},
          "required": ["name", "age", "tags"], "additionalProperties": False}
STRICT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
ASK = [{"role": "user", "content": "Tell me about one person."}]


# What the surface does: a script that follows the grammar, or does not.

def reply(*pieces):
    return [{"pieces": list(pieces)}]


def test_a_script_that_follows_its_grammar_is_answered(start):
    server = start(reply('{"a": ', "1", "}", "never"))
    answer = server.chat("x", response_format={"type": "json_object"})
    assert (answer.status, answer.text, answer.json["choices"][0]["finish_reason"]) == (200, '{"a": 1}', "stop")
    assert answer.json["penstock"]["grammar_ms"] > 0


def test_SO_08_what_the_grammar_refuses_fails_the_request(start):
    for pieces in (["Sure: {}"], ["{", "]"], ['{"a"']):
        answer = start(reply(*pieces)).chat("x", response_format={"type": "json_object"})
        assert answer.status == 500 and "grammar" in answer.error["message"], answer.body


@pytest.mark.parametrize("stream", [False, True])
def test_ST_16_SO_18_a_bad_schema_is_refused_before_anything_streams(hello, stream):
    for fields, word, param in [
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"uniqueItems": True, "type": "array"}}}}, "uniqueItems", "response_format.json_schema.schema"),
        ({"guided_regex": "("}, "regular expression", "guided_regex"),
        ({"structured_outputs": {"grammar": "start: missing"}}, "missing", "structured_outputs.grammar"),
        ({"structured_outputs": {"grammar": "root ::= \"a\""}}, "GBNF", "structured_outputs.grammar"),
        ({"grammar": "root ::= \"a\""}, "guided_grammar", "grammar"),
        ({"guided_choice": ["a"], "guided_regex": "a"}, "both", "guided_choice"),
    ]:
        answer = hello.chat("x", stream=stream, **fields)
        assert answer.status == 400 and word in answer.error["message"] and answer.error["param"] == param, answer.body


def test_the_end_comes_where_the_grammar_may_end(start):
    assert start(reply("1", "2")).chat("x", guided_regex="[0-9]+").text == "12"
    assert start(reply("1", "x")).chat("x", guided_regex="[0-9]+").status == 500
    answer = start(reply("yes", "yes")).chat("x", guided_choice=["yes", "no"], ignore_eos=True)
    assert (answer.text, answer.json["choices"][0]["finish_reason"]) == ("yes", "stop"), "also where the answer is to go on"


def test_SO_11_an_answer_that_is_cut_says_so(start):
    answer = start(reply('{"a": ', '"long', "er", '"}')).chat("x", response_format={"type": "json_object"}, max_tokens=2)
    assert (answer.text, answer.json["choices"][0]["finish_reason"]) == ('{"a": "long', "length")


# Real weights.

@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ModelServer(MODEL, tmp_path_factory.mktemp("model"), ["--max-draft-tokens", "8", "--context-length", "2048"])
    yield server
    server.stop()


@pytest.fixture(scope="module")
def client(server):
    return OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)


LARK = 'start: "SELECT " NAME " FROM " NAME ("," NAME)? ";"\nNAME: /[a-z]{1,8}/'
FOLLOWS = [
    ({"response_format": STRICT}, lambda text: jsonschema.validate(json.loads(text), PERSON)),
    ({"response_format": {"type": "json_object"}}, lambda text: isinstance(json.loads(text), dict) or pytest.fail(text)),
    ({"extra_body": {"structured_outputs": {"regex": r"\d{3}-[A-Z]{2}"}}}, lambda text: re.fullmatch(r"\d{3}-[A-Z]{2}", text) or pytest.fail(text)),
    ({"extra_body": {"guided_choice": ["Berlin", "Paris", "Bern"]}}, lambda text: text in ("Berlin", "Paris", "Bern") or pytest.fail(text)),
    ({"extra_body": {"guided_grammar": LARK}}, lambda text: re.fullmatch(r"SELECT [a-z]{1,8} FROM [a-z]{1,8}(,[a-z]{1,8})?;", text) or pytest.fail(text)),
    ({}, lambda text: None),
]


def ask(client, fields, **more):
    return client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=160, **fields, **more)


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_every_kind_is_followed(client, temperature):
    for fields, check in FOLLOWS[:5]:
        answer = ask(client, fields, temperature=temperature, seed=3)
        if answer.choices[0].finish_reason == "stop":
            check(answer.choices[0].message.content)
        else:
            assert answer.choices[0].finish_reason == "length" and "json_object" in str(fields)


def test_SO_15_constrained_and_free_requests_in_one_batch(client, server):
    alone = [ask(client, fields, temperature=0.8, seed=11).choices[0].message.content for fields, _ in FOLLOWS]
    together = [None] * len(FOLLOWS)
    barrier = threading.Barrier(len(FOLLOWS))

    def one(i):
        barrier.wait()
        together[i] = ask(client, FOLLOWS[i][0], temperature=0.8, seed=11)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(FOLLOWS))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert [answer.choices[0].message.content for answer in together] == alone
    assert max(answer.penstock["batch_width"] for answer in together) > 2
    assert server.metric("engine_masks_total") > 0


def test_several_answers_each_follow_it(client):
    answer = ask(client, {"response_format": STRICT}, temperature=1.2, seed=5, n=2)
    texts = [choice.message.content for choice in answer.choices]
    for choice in answer.choices:
        assert choice.finish_reason == "stop"
        jsonschema.validate(json.loads(choice.message.content), PERSON)
    assert texts[0] != texts[1]


def test_streamed_and_whole_are_the_same(client):
    whole = ask(client, {"response_format": STRICT}, temperature=0.7, seed=2).choices[0]
    chunks = [chunk.choices[0] for chunk in ask(client, {"response_format": STRICT}, temperature=0.7, seed=2, stream=True)]
    assert "".join(chunk.delta.content or "" for chunk in chunks) == whole.message.content
    assert chunks[-1].finish_reason == whole.finish_reason == "stop"
    assert whole.message.content[0] == "{", "SO-03: no fence"


def test_SO_12_drafts_change_nothing(client):
    prompt = [{"role": "user", "content": "Repeat: " + json.dumps({"name": "Anna", "age": 7, "tags": ["red", "red", "red"]}) * 4}]
    drafted = 0
    for temperature in (0, 0.9):
        for fields, check in FOLLOWS[:2]:
            fields = dict(fields, temperature=temperature, seed=9, messages=prompt, model=MODEL, max_tokens=120)
            plain = client.chat.completions.create(**fields, extra_body={"max_draft_tokens": 0})
            fast = client.chat.completions.create(**fields)
            assert fast.choices[0].message.content == plain.choices[0].message.content
            assert plain.penstock["drafted"] == 0
            drafted += fast.penstock["accepted"]
    assert drafted > 0


def test_SO_19_biases_penalties_and_logprobs_go_with_it(client):
    answer = ask(client, {"response_format": STRICT}, temperature=0.9, seed=4, logprobs=True, top_logprobs=3, frequency_penalty=0.5, presence_penalty=0.3,
                 logit_bias={"5": 100}, extra_body={"top_k": 40, "min_p": 0.01, "repetition_penalty": 1.1})
    choice = answer.choices[0]
    jsonschema.validate(json.loads(choice.message.content), PERSON)
    assert "".join(entry.token for entry in choice.logprobs.content) == choice.message.content
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 3 for entry in choice.logprobs.content)


def test_stop_strings_and_max_tokens_still_end_it(client):
    cut = ask(client, {"response_format": STRICT}, temperature=0, stop=['"age"']).choices[0]
    assert cut.finish_reason == "stop" and '"age"' not in cut.message.content
    short = client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=3, response_format=STRICT).choices[0]
    assert short.finish_reason == "length"


def test_completions_have_it_too(client):
    answer = client.completions.create(model=MODEL, prompt="The year of the moon landing: ", max_tokens=20, extra_body={"guided_regex": "19[0-9]{2}"})
    assert re.fullmatch("19[0-9]{2}", answer.choices[0].text) and answer.choices[0].finish_reason == "stop"


def test_the_sdk_parses_a_type(client):
    from pydantic import BaseModel

    class Person(BaseModel):
        name: str
        age: int

    parsed = client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Person, max_tokens=160, temperature=0.5, seed=1)
    assert parsed.choices[0].finish_reason == "length" or isinstance(parsed.choices[0].message.parsed, Person)


def test_a_bad_schema_is_an_error_of_the_sdk(client):
    with pytest.raises(BadRequestError, match="contains"):
        ask(client, {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"contains": {"type": "null"}}}}}, stream=True)


def test_the_cost_is_told(client, server):
    answer = ask(client, {"response_format": STRICT}, temperature=0.5, seed=8)
    receipt = answer.penstock
    assert receipt["masks"] >= answer.usage.completion_tokens and receipt["mask_ms"] > 0
    seconds = re.search(r"^penstock_engine_mask_seconds_total (\S+)$", server.get("/metrics").body.decode(), re.MULTILINE)
    assert float(seconds.group(1)) > 0
