"""Proposed tokens on real weights: the answers are those of a server without them, greedy and drawn, alone and together, whoever proposes."""
import os
import threading

import pytest
from scripted_server import BUILD, ModelServer

pytestmark = pytest.mark.skipif(not (BUILD / "penstock").exists(), reason="build/penstock is not built")
MODEL = os.environ.get("PENSTOCK_TEST_MODEL", "smollm2")
DRAFT_MODEL = os.environ.get("PENSTOCK_TEST_DRAFT_MODEL", MODEL)  # the model itself is right unless its arithmetic is not
CODE = "def area(width, height):\n    return width * height\n\ndef volume(width, height, depth):\n    return width * height * depth\n"
PROMPTS = ["Repeat this code without a change:\n" + CODE, "Count from one to twenty in words.", "Write the word sea ten times."]
FIELDS = [{"temperature": 0, "max_tokens": 80}, {"temperature": 0.7, "seed": 5, "max_tokens": 60, "repetition_penalty": 1.1}]


def answers(server, together, **more):
    found = {}

    def ask(prompt, fields):
        answer = server.chat(prompt, cache_prompt=False, logprobs=True, **fields, **more)
        assert answer.status == 200, answer.body
        choice = answer.json["choices"][0]
        found[prompt, fields["temperature"]] = (choice["message"]["content"], [t["logprob"] for t in choice["logprobs"]["content"]])
        receipt = answer.json["penstock"]
        found["drafted"] = found.get("drafted", 0) + receipt["drafted"]
        found["accepted"] = found.get("accepted", 0) + receipt["accepted"]

    threads = [threading.Thread(target=ask, args=(p, f)) for p in PROMPTS for f in FIELDS]
    for thread in threads:
        thread.start()
        together or thread.join()
    [thread.join() for thread in threads]
    return found, found.pop("drafted"), found.pop("accepted")


def test_drafts_change_no_answer(tmp_path):
    server = ModelServer(MODEL, tmp_path, ["--max-draft-tokens", "8", "--draft-model", DRAFT_MODEL, "--context-length", "2048"])
    try:
        expected, drafted, _ = answers(server, False, max_draft_tokens=0)
        assert len(expected) == len(PROMPTS) * len(FIELDS) and drafted == 0
        assert server.metric("engine_drafts_proposed_total") == 0
        drafted = accepted = 0
        for source in ("ngram", "suffix", "model", "auto"):
            for together in (False, True):
                got, now_drafted, now_accepted = answers(server, together, draft_source=source)
                assert got == expected, (source, together)
                assert now_accepted <= now_drafted
                drafted, accepted = drafted + now_drafted, accepted + now_accepted
        assert accepted > 20
        assert server.metric("engine_drafts_proposed_total") == drafted and server.metric("engine_drafts_accepted_total") == accepted
        told = server.get("/v1/status").json["mechanisms"]["speculation"]
        assert told["lookup"]["accepted"] + told["model"]["accepted"] == accepted and told["model_failures"] == 0
        for source in ("lookup", "model"):
            assert sum(n * steps for n, steps in enumerate(told[source]["steps_by_accepted"])) == told[source]["accepted"] > 0
        assert f'draft_accepted_tokens_sum{{source="model"}} {told["model"]["accepted"]}' in server.get("/metrics").body.decode()
    finally:
        server.stop()


def test_a_field_that_is_wrong_is_refused(start):
    server = start({"model": "org/told", "replies": [{"pieces": ["a"]}]})
    for body in ({"max_draft_tokens": -1}, {"max_draft_tokens": "4"}, {"draft_source": "guess"}, {"draft_source": 1}):
        assert server.chat(**body).status == 400, body
    receipt = server.chat(max_draft_tokens=4, draft_source="suffix").json["penstock"]
    assert (receipt["drafted"], receipt["accepted"]) == (0, 0)
