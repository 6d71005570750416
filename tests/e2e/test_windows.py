"""Sliding windows over a real socket and real weights: requests below and above the window run together, join and leave, and each answer is that of the request alone."""
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from scripted_server import BUILD, ModelServer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (BUILD / "penstock").exists(), reason="build/penstock is not built")]
WORDS = "The river ran past the mill and the old road turned north towards the hills. "


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    model = os.environ.get("PENSTOCK_TEST_WINDOW_MODEL", "gemma3-270m")
    server = ModelServer(model, tmp_path_factory.mktemp("window"), ["--context-length", "4096", "--prefill-chunk-tokens", "128"])
    yield server
    server.stop()


def ask(server, n, name=None, **fields):
    prompt = f"Tale {name or n}. " + WORDS * n + "What happened next?"
    body = {"model": "default", "prompt": prompt, "temperature": 0, "max_tokens": 32, "logprobs": 1, **fields}
    answer = server.post("/v1/completions", body)
    assert answer.status == 200, answer.body
    return answer.json


def test_BC_06_BC_21_lengths_below_and_above_the_window_together(server):
    lengths = [2, 25, 33, 34, 60, 90, 3, 36]  # the window is 512 tokens, a sentence has 16
    alone = [ask(server, n, cache_prompt=False) for n in lengths]
    tokens = [a["usage"]["prompt_tokens"] for a in alone]
    assert min(tokens) < 256 and max(tokens) > 1024 and any(512 - 128 < t < 512 + 128 for t in tokens)
    for fields in ({"cache_prompt": False}, {}, {}):
        with ThreadPoolExecutor(len(lengths)) as pool:
            together = list(pool.map(lambda n: ask(server, n, **fields), lengths))
        assert [a["choices"] for a in together] == [a["choices"] for a in alone]
    assert together[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 500, "the last round was warm"


def test_PC_02_a_shorter_beginning_of_a_prompt_that_went_past_the_window(server):
    cold = ask(server, 28, cache_prompt=False)
    ask(server, 80)
    warm = ask(server, 28, name=80)
    assert warm["choices"] == ask(server, 28, name=80, cache_prompt=False)["choices"]
    assert ask(server, 28)["choices"] == cold["choices"]
