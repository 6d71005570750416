"""The prefix cache over a real socket and real weights: warm answers are those of a cold run, usage says what was saved, a request may refuse."""
import os
import threading

import pytest
from scripted_server import BUILD, ModelServer

pytestmark = pytest.mark.skipif(not (BUILD / "penstock").exists(), reason="build/penstock is not built")
SLOW = [{"pieces": ["slow "], "repeat": 60, "delays_ms": 20}]
STORY = "The sea was calm and the ship went on. " * 60


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ModelServer(os.environ.get("PENSTOCK_TEST_MODEL", "smollm2"), tmp_path_factory.mktemp("model"))
    yield server
    server.stop()


def stats(server):
    return server.get("/v1/cache/stats").json


def test_PC_18_PC_25_a_warm_answer_is_the_cold_one_and_says_what_it_saved(server):
    cold = server.ask(STORY + "Why?", cache_prompt=False)
    first = server.ask(STORY + "Why?")
    warm = server.ask(STORY + "Why?")
    assert cold.text == first.text == warm.text
    tokens = warm.json["usage"]["prompt_tokens"]
    assert cold.cached_tokens == 0 and warm.cached_tokens == tokens - 1
    assert cold.json["usage"]["prompt_tokens"] == tokens, "prompt_tokens is always the full count"


def test_a_drawn_answer_is_the_same_warm(server):
    fields = {"temperature": 1, "seed": 7, "max_tokens": 40}
    cold = server.ask(STORY + "Tell me more.", cache_prompt=False, **fields)
    assert server.ask(STORY + "Tell me more.", **fields).text == cold.text
    assert server.ask(STORY + "Tell me more.", **fields).text == cold.text


def test_the_next_turn_begins_with_the_last_answer(server):
    turn = [{"role": "user", "content": STORY + "Say hello."}]
    first = server.post("/v1/chat/completions", {"model": "default", "messages": turn, "temperature": 0, "max_tokens": 20}).json
    turn += [first["choices"][0]["message"], {"role": "user", "content": "And now goodbye."}]
    body = {"model": "default", "messages": turn, "temperature": 0, "max_tokens": 20}
    cold = server.post("/v1/chat/completions", {**body, "cache_prompt": False}).json
    second = server.post("/v1/chat/completions", body).json
    assert second["choices"] == cold["choices"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= first["usage"]["prompt_tokens"]


def test_salts_share_nothing(server):
    server.ask(STORY + "One.", cache_salt="a")
    assert server.ask(STORY + "One.", cache_salt="b").cached_tokens == 0
    assert server.ask(STORY + "One.", cache_salt="a").cached_tokens > 0


def test_clear_forgets(server):
    server.ask(STORY + "Two.")
    assert stats(server)["prefix"]["entries"] > 0
    assert server.post("/v1/cache/clear", {}).status == 202
    assert server.ask(STORY + "Two.").cached_tokens == 0
    assert "penstock_prefix_cache_tokens_saved_total" in server.get("/metrics").body.decode()


def test_PC_16_two_prompts_in_turn_both_hit(server):
    prompts = [STORY + "Agent.", "A sub-agent reads a file. " * 100]
    for prompt in prompts:
        server.ask(prompt)
    for prompt in prompts:
        answer = server.ask(prompt)
        assert answer.cached_tokens == answer.json["usage"]["prompt_tokens"] - 1


def test_n_answers_compute_the_prompt_once(server):
    server.post("/v1/cache/clear", {})
    before = server.metric("engine_prompt_tokens_total")
    answer = server.ask(STORY + "Three.", n=4, temperature=1, seed=3)
    tokens = answer.json["usage"]["prompt_tokens"]
    assert len({c["message"]["content"] for c in answer.json["choices"]}) > 1
    assert server.metric("engine_prompt_tokens_total") - before < tokens + 4 * 64
    assert answer.json["choices"][0]["message"]["content"] == server.ask(STORY + "Three.", temperature=1, seed=3).text


@pytest.mark.parametrize("kv_format", ["q8", "q4", "k8v4"])
def test_warm_equals_cold_in_a_quantised_cache(tmp_path, kv_format):
    """Hits end within a block, so their front is copied, scales too."""
    server = ModelServer(os.environ.get("PENSTOCK_TEST_MODEL", "smollm2"), tmp_path, ["--kv-format", kv_format, "--context-length", "2048"])
    try:
        assert f"{kv_format} cache" in server.get("/v1/status").body.decode()
        fields = {"temperature": 1, "seed": 7, "max_tokens": 40}
        for end in ("Why?", "Tell me more of the ship."):
            cold = server.ask(STORY + end, cache_prompt=False, **fields)
            first, warm = server.ask(STORY + end, **fields), server.ask(STORY + end, **fields)
            assert cold.text == first.text == warm.text
            assert warm.cached_tokens == warm.json["usage"]["prompt_tokens"] - 1
    finally:
        server.stop()


def test_MM_10_more_than_fits_is_served_by_giving_way(tmp_path):
    """A cache of about three contexts and eight answers that grow: some are preempted, all are as alone."""
    server = ModelServer(os.environ.get("PENSTOCK_TEST_MODEL", "smollm2"), tmp_path, ["--context-length", "1024", "--kv-memory-bytes", str(40 << 20)])
    try:
        fields = [{"temperature": 0.8, "seed": i, "max_tokens": 400, "ignore_eos": True, "cache_prompt": i % 2 == 0} for i in range(8)]
        prompts = ["The sea was calm. " * 20 + str(i) for i in range(8)]
        crowd = [None] * 8

        def join(i):
            crowd[i] = server.ask(prompts[i], **fields[i])

        threads = [threading.Thread(target=join, args=(i,)) for i in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert stats(server)["preempted"] > 0, stats(server)
        for i in (0, 3, 7):
            assert server.ask(prompts[i], **{**fields[i], "cache_prompt": False}).text == crowd[i].text
        assert stats(server)["blocks"]["used"] == 0
    finally:
        server.stop()


def test_priorities_and_times_are_checked(hello):
    for body in ({"priority": "urgent"}, {"priority": 1.5}, {"timeout_ms": 0}, {"cache_prompt": "no"}, {"cache_salt": 3}):
        answer = hello.chat("hi", **body)
        assert answer.status == 400 and answer.error["param"] == next(iter(body)), answer.body
    for priority in ("realtime", "batch", "background", 0, 7, -3):
        assert hello.chat("hi", priority=priority).status == 200


def test_a_request_that_takes_too_long_is_408(start):
    server = start(SLOW)
    answer = server.chat("hi", timeout_ms=200)
    assert answer.status == 408 and answer.error["code"] == "request_timeout", answer.body
    stream = server.stream("hi", timeout_ms=200)
    assert "request_timeout" in stream.body.decode() and stream.done == 0
    limited = start(SLOW, "--request-timeout-ms", "150")
    assert limited.chat("hi").status == 408
    assert limited.chat("hi", timeout_ms=20000).status == 200


def test_PC_12_a_short_prompt_first_does_not_stop_later_caching(server):
    server.post("/v1/cache/clear", {})
    server.ask("Hi", max_tokens=1)
    first = server.ask(STORY + "What then?")
    assert server.ask(STORY + "What then?").cached_tokens == first.json["usage"]["prompt_tokens"] - 1


def test_PC_21_a_history_that_lost_text_falls_back_to_where_it_differs(server):
    turn = [{"role": "user", "content": STORY + "Think, then answer."},
            {"role": "assistant", "content": "Long thoughts about the sea. " * 20 + "It was calm."},
            {"role": "user", "content": "And then?"}]
    body = {"model": "default", "messages": turn, "temperature": 0, "max_tokens": 12}
    whole = server.post("/v1/chat/completions", body).json
    turn[1] = {"role": "assistant", "content": "It was calm."}
    shorter = server.post("/v1/chat/completions", body).json
    cold = server.post("/v1/chat/completions", {**body, "cache_prompt": False}).json
    assert shorter["choices"] == cold["choices"]
    saved = shorter["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert 500 < saved < whole["usage"]["prompt_tokens"] - 100
