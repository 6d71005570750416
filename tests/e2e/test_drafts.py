"""Drafts from the request's own text on real weights: the answers are those of a server without them, greedy and drawn, alone and together."""
import os
import threading

import pytest
from scripted_server import BUILD, ModelServer

pytestmark = pytest.mark.skipif(not (BUILD / "penstock").exists(), reason="build/penstock is not built")
CODE = "def area(width, height):\n    return width * height\n\ndef volume(width, height, depth):\n    return width * height * depth\n"
PROMPTS = ["Repeat this code without a change:\n" + CODE, "Count from one to twenty in words.", "Write the word sea ten times."]
FIELDS = [{"temperature": 0, "max_tokens": 80}, {"temperature": 0.7, "seed": 5, "max_tokens": 60, "repetition_penalty": 1.1}]


def answers(server, together):
    found = {}

    def ask(prompt, fields):
        answer = server.chat(prompt, cache_prompt=False, logprobs=True, **fields)
        assert answer.status == 200, answer.body
        choice = answer.json["choices"][0]
        found[prompt, fields["temperature"]] = (choice["message"]["content"], [t["logprob"] for t in choice["logprobs"]["content"]])

    threads = [threading.Thread(target=ask, args=(p, f)) for p in PROMPTS for f in FIELDS]
    for thread in threads:
        thread.start()
        together or thread.join()
    [thread.join() for thread in threads]
    return found


def test_drafts_change_no_answer(tmp_path):
    model = os.environ.get("PENSTOCK_TEST_MODEL", "smollm2")
    plain, drafting = ModelServer(model, tmp_path), ModelServer(model, tmp_path, ["--max-draft-tokens", "8"])
    try:
        expected = answers(plain, False)
        assert len(expected) == len(PROMPTS) * len(FIELDS)
        assert answers(drafting, False) == expected
        assert answers(drafting, True) == expected
        assert drafting.metric("engine_drafts_accepted_total") > 20
        assert plain.metric("engine_drafts_proposed_total") == 0
    finally:
        plain.stop()
        drafting.stop()
