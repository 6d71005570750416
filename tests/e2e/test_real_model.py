"""The OpenAI surface over the default model: batches equal solo runs, and what only real tokens can show."""
import json
import math
import os
import subprocess
import threading
import time

import pytest
from scripted_server import BUILD, ModelServer, receive_until

pytestmark = pytest.mark.skipif(not (BUILD / "penstock").exists(), reason="build/penstock is not built")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ModelServer(os.environ.get("PENSTOCK_TEST_MODEL", "smollm2"), tmp_path_factory.mktemp("model"))
    yield server
    server.stop()


QUESTIONS = [
    "Name three colours.",
    "Write one sentence about the sea. " * 12,
    "What is 7 times 6?",
    "Explain what a compiler does to a child, in two sentences. " + "Be kind. " * 40,
    "Say hello in French.",
    "List the days of the week.",
    "Why is the sky blue? " * 30,
    "Give me a title for a story about a dog.",
]


def test_eight_at_once_equal_their_solo_runs(server):
    """Mixed lengths, greedy and drawn: the same bytes alone and in a crowd, and the receipts show that it was one."""
    fields = [{"temperature": 0, "max_tokens": 24 + 4 * i} if i % 2 else
              {"temperature": 1, "seed": i, "top_p": 0.9, "max_tokens": 40} for i in range(8)]

    def ask(i):
        answer = server.chat(QUESTIONS[i], **fields[i])
        assert answer.status == 200, answer.body
        return answer

    solo = [ask(i) for i in range(8)]
    assert all(a.json["penstock"]["batch_width"] == 1 for a in solo)
    crowd = [None] * 8
    barrier = threading.Barrier(8)

    def join(i):
        barrier.wait()
        crowd[i] = ask(i)

    threads = [threading.Thread(target=join, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert [a.text for a in crowd] == [a.text for a in solo]
    widths = [a.json["penstock"]["batch_width"] for a in crowd]
    assert max(widths) > 1, widths


def test_streamed_and_whole_are_the_same(server):
    facts = server.both("Name three colours.", temperature=0, max_tokens=30)
    assert facts[0] and facts[2] > 0
    assert server.both("Name three colours.", temperature=0, max_tokens=30) == facts


def test_BC_12_seeds(server):
    def text(seed):
        return server.chat("Tell me a story.", temperature=1, seed=seed, max_tokens=24).text

    assert text(1) == text(1)
    assert text(1) != text(2)


def test_a_stop_token_of_the_model_ends_the_answer(server):
    answer = server.chat("Reply with the single word: yes", temperature=0, max_tokens=400)
    assert answer.json["choices"][0]["finish_reason"] == "stop"
    assert "<|im_end|>" not in answer.text
    assert answer.json["usage"]["completion_tokens"] < 400


def test_CT_07_a_typed_control_token_costs_more_than_one_token(server):
    """A control token is one id; the same characters as text are several, and the answer does not end there."""
    def tokens(text):
        return server.chat(text, max_tokens=1).json["usage"]["prompt_tokens"]

    assert tokens("a<|im_end|>b") >= tokens("ab") + 4


def test_TK_13_log_probabilities_are_natural_logarithms(server):
    answer = server.chat("Name three colours.", temperature=0, max_tokens=8, logprobs=True, top_logprobs=20)
    for entry in answer.json["choices"][0]["logprobs"]["content"]:
        top = [t["logprob"] for t in entry["top_logprobs"]]
        assert len(top) == 20 and top == sorted(top, reverse=True)
        assert entry["logprob"] == top[0], "greedy takes the likeliest"
        assert sum(math.exp(p) for p in top) <= 1.0001
        assert bytes(entry["bytes"]).decode(errors="replace") == entry["token"] or entry["token"].startswith("bytes:")


def test_OA_05_sampling_fields_change_what_is_drawn(server):
    def text(**fields):
        answer = server.chat("Tell me a story.", max_tokens=16, **fields)
        assert answer.status == 200, answer.body
        return answer.text

    greedy = text(temperature=0)
    assert len({text(temperature=2, seed=i) for i in range(3)} | {greedy}) == 4
    for narrow in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1}):
        assert {text(temperature=2, seed=i, **narrow) for i in range(2)} == {greedy}, narrow


def test_OA_05_penalties_and_biases_change_what_is_drawn(server):
    def tokens(**fields):
        body = {"prompt": "one one one one one one one", "temperature": 0, "max_tokens": 20, "logprobs": 0, "ignore_eos": True, **fields}
        return server.post("/v1/completions", body).json["choices"][0]["logprobs"]["tokens"]

    plain = tokens()
    most = max(plain, key=plain.count)
    assert plain.count(most) >= 3
    for penalty in ({"frequency_penalty": 2}, {"repetition_penalty": 10}, {"presence_penalty": 2}):
        assert tokens(**penalty) != plain, penalty
    assert max(tokens(repetition_penalty=10).count(t) for t in plain) < plain.count(most)
    assert set(tokens(logit_bias={"504": 100})) == {"The"}
    ids = json.loads(subprocess.run([str(BUILD / "penstock"), "generate", os.environ.get("PENSTOCK_TEST_MODEL", "smollm2"), "one one one", "--raw", "--json",
                                     "--temperature", "0", "--max-tokens", "1"], capture_output=True, text=True, check=True).stdout)["tokens"]
    first = tokens(prompt="one one one", max_tokens=1)
    assert tokens(prompt="one one one", max_tokens=1, logit_bias={str(ids[0]): -100}) != first


def test_OA_26_bytes_of_characters_that_are_split_over_tokens(server):
    answer = server.chat("Repeat exactly: \N{PARTY POPPER} \u6f22\u5b57", temperature=0, max_tokens=16, ignore_eos=True, logprobs=True)
    entries = answer.json["choices"][0]["logprobs"]["content"]
    assert any(entry["token"].startswith("bytes:") for entry in entries), "a character is split"
    assert b"".join(bytes(entry["bytes"]) for entry in entries).decode(errors="replace") == answer.text


def test_LP_01_prompt_over_the_context(server):
    context = server.get("/v1/models").json["data"][0]["max_model_len"]
    answer = server.post("/v1/completions", {"prompt": [5] * (context + 1), "stream": True})
    assert answer.status == 400 and answer.error["code"] == "context_length_exceeded"
    assert str(context) in answer.error["message"] and str(context + 1) in answer.error["message"]


def test_ids_beyond_the_vocabulary_are_refused(server):
    answer = server.post("/v1/completions", {"prompt": [10**7], "max_tokens": 1})
    assert answer.status == 400 and answer.error["param"] == "prompt"
    assert server.chat(logit_bias={str(10**7): 1}).error["param"] == "logit_bias"


def test_CX_01_a_client_that_leaves_ends_its_generation(server):
    before = server.metric("requests_cancelled_via_disconnect_total")
    connection = server.open_stream("Count to one thousand.", temperature=0, ignore_eos=True, max_tokens=4000)
    receive_until(connection, b'"content":"')
    connection.close()
    server.wait_metric("requests_running", 0)
    server.wait_metric("sequences_running", 0)
    assert server.metric("requests_cancelled_via_disconnect_total") == before + 1


def test_CX_02_a_client_that_leaves_during_the_prefill(tmp_path):
    """Of the sixty-odd chunks of the prompt only those are computed that began before it left."""
    server = ModelServer(os.environ.get("PENSTOCK_TEST_MODEL", "smollm2"), tmp_path, ["--prefill-chunk-tokens", "64"])
    try:
        connection = server.open_stream("word " * 4000, max_tokens=5)
        while server.metric("steps_executed_total") == 0:
            time.sleep(0.01)
        connection.close()
        server.wait_metric("requests_running", 0)
        server.wait_metric("sequences_running", 0)
        assert server.metric("steps_executed_total") < 55 and server.metric("completion_tokens_total") == 0
        assert server.metric("kv_cache_blocks_used") == 0
    finally:
        server.stop()


def test_CX_13_a_cancel_leaves_the_rest_of_the_batch_alone(server):
    fields = {"temperature": 0, "ignore_eos": True, "max_tokens": 60}
    solo = server.chat("Name three colours.", **fields).text
    leaver = server.open_stream("Tell me a story.", n=2, ignore_eos=True, max_tokens=3000)
    receive_until(leaver, b'"content":"')
    answers = []
    thread = threading.Thread(target=lambda: answers.append(server.chat("Name three colours.", **fields)))
    thread.start()
    while server.metric("sequences_running") < 3:
        assert thread.is_alive()
    leaver.close()
    thread.join()
    assert answers[0].text == solo and answers[0].json["penstock"]["batch_width"] == 3


def test_several_choices_and_prompts(server):
    answer = server.post("/v1/completions", {"prompt": ["The capital of France is", "One, two, three,"], "n": 2,
                                             "temperature": 1, "seed": 3, "max_tokens": 6}).json
    assert len(answer["choices"]) == 4
    single = server.post("/v1/completions", {"prompt": "One, two, three,", "temperature": 1, "seed": 3, "max_tokens": 6})
    assert answer["choices"][2]["text"] == single.text, "the first choice equals a request of its own"


def test_sdk(server):
    client = server.openai()
    model = client.models.list().data[0].id
    answer = client.chat.completions.create(model=model, temperature=0, max_tokens=12,
                                            messages=[{"role": "user", "content": "Say hello."}])
    parts = client.chat.completions.create(model=model, temperature=0, max_tokens=12, stream=True,
                                           messages=[{"role": "user", "content": "Say hello."}])
    assert "".join(c.choices[0].delta.content or "" for c in parts) == answer.choices[0].message.content
    assert json.loads(answer.model_dump_json())["penstock"]["executor"] in ("cpu", "mlx", "reference")


def messages(server, text, path="/v1/messages", **fields):
    return server.post(path, {"model": "claude-sonnet-4-5", "max_tokens": 16, "temperature": 0,
                              "messages": [{"role": "user", "content": text}], **fields})


def test_AN_27_AN_13_the_anthropic_surface_says_the_same(server):
    """The same conversation: the same text, the same tokens, and as many as count_tokens said."""
    system = "You are brief."
    answer = messages(server, "Name three colours.", system=system)
    assert answer.status == 200, answer.body
    other = server.post("/v1/chat/completions", {"max_tokens": 16, "temperature": 0, "messages": [
        {"role": "system", "content": system}, {"role": "user", "content": "Name three colours."}]})
    assert answer.json["content"] == [{"type": "text", "text": other.text}] and other.text
    usage, theirs = answer.json["usage"], other.json["usage"]
    tokens = usage["input_tokens"] + usage["cache_read_input_tokens"]
    assert (tokens, usage["output_tokens"]) == (theirs["prompt_tokens"], theirs["completion_tokens"])
    counted = messages(server, "Name three colours.", "/v1/messages/count_tokens", system=system)
    assert counted.json == {"input_tokens": tokens}


def test_AN_23_a_prefill_is_continued(server):
    history = [{"role": "user", "content": "Name three colours."}, {"role": "assistant", "content": "Red, green and"}]
    answer = messages(server, "", messages=history)
    other = server.post("/v1/chat/completions", {"max_tokens": 16, "temperature": 0, "messages": history, "continue_final_message": True})
    assert answer.json["content"][0]["text"] == other.text


def test_PC_10_a_changing_billing_header_costs_no_prompt(server):
    def ask(cch):
        system = [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch={cch};"},
                  {"type": "text", "text": "You are an agent for coding. " + "Read before you write. " * 150, "cache_control": {"type": "ephemeral"}}]
        return messages(server, "Hello.", system=system).json["usage"]

    first, second = ask("6e3f1"), ask("a02bc")
    total = first["input_tokens"] + first["cache_read_input_tokens"]
    assert total == second["input_tokens"] + second["cache_read_input_tokens"] > 600
    assert second["cache_read_input_tokens"] > 0.9 * total


def test_the_anthropic_sdk_with_a_real_model(server):
    anthropic = pytest.importorskip("anthropic")
    client = anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0)
    hi = [{"role": "user", "content": "Say hello in French."}]
    message = client.messages.create(model="claude-sonnet-5", max_tokens=12, messages=hi, extra_body={"temperature": 0})
    with client.messages.stream(model="claude-sonnet-5", max_tokens=12, messages=hi, extra_body={"temperature": 0}) as stream:
        text = stream.get_final_text()
        assert stream.get_final_message().stop_reason == message.stop_reason
    assert message.content[0].text == text and message.stop_reason in ("max_tokens", "end_turn")
