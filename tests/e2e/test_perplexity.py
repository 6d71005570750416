"""penstock perplexity beside the same figures made in Python from the logits that the program prints."""
import json
import math

import pytest
from model_folder import llama, write_model

TEXT = "It was a bright cold day in April, and the clocks were striking thirteen."
WINDOW = 12


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("perplexity") / "tiny", llama())


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return str(path)


def log_probs(row):
    most = max(row)
    total = math.log(sum(math.exp(x - most) for x in row)) + most
    return [x - total for x in row]


def windows_of(penstock, model):
    ids = json.loads(penstock("generate", model, TEXT, "--raw", "--json", "--max-tokens", "1").stdout)["prompt_tokens"]
    start = json.loads(penstock("generate", model, "a", "--raw", "--json", "--max-tokens", "1").stdout)["prompt_tokens"][:-1]
    windows = [ids[at:at + WINDOW] for at in range(0, len(ids) - WINDOW + 1, WINDOW)]
    return [start[:1] + window[len(start[:1]):] for window in windows]


def distributions(penstock, model, window, *arguments):
    out = penstock("logits", model, "--executor", "cpu", "--tokens", ",".join(map(str, window)), *arguments)
    return [log_probs(row) for row in json.loads(out.stdout)["logits"]]


def test_figures_are_those_of_the_logits(penstock, model, text):
    result = json.loads(penstock("perplexity", model, text, "--executor", "cpu", "--window", str(WINDOW), "--windows", "3", "--against-exact", "--json").stdout)
    nats, exact_nats, kl = [], [], []
    for window in windows_of(penstock, model)[:3]:
        ours, exact = distributions(penstock, model, window), distributions(penstock, model, window, "--exact")
        for at in range(WINDOW // 2, WINDOW - 1):
            nats.append(-ours[at][window[at + 1]])
            exact_nats.append(-exact[at][window[at + 1]])
            kl.append(sum(math.exp(p) * (p - q) for p, q in zip(exact[at], ours[at])))
    n = len(nats)
    assert result["windows"] == 3 and result["scored_tokens"] == n == 3 * (WINDOW // 2 - 1)
    assert result["perplexity"] == pytest.approx(math.exp(sum(nats) / n), rel=1e-5)
    assert result["exact_perplexity"] == pytest.approx(math.exp(sum(exact_nats) / n), rel=1e-5)
    assert result["perplexity_rise_percent"] == pytest.approx(100 * (math.exp((sum(nats) - sum(exact_nats)) / n) - 1), abs=1e-3)
    assert result["mean_kl"] == pytest.approx(sum(kl) / n, abs=1e-6)


def test_exact_beside_exact_is_the_same(penstock, model, text):
    result = json.loads(penstock("perplexity", model, text, "--executor", "cpu", "--window", str(WINDOW), "--exact", "--against-exact", "--json").stdout)
    assert result["perplexity"] == result["exact_perplexity"] and result["perplexity_rise_percent"] == 0
    assert abs(result["most_kl"]) < 1e-12 and result["same_likeliest_percent"] == 100


def test_a_text_shorter_than_a_window_is_refused(penstock, model, tmp_path):
    (tmp_path / "short.txt").write_text("a")
    out = penstock("perplexity", model, str(tmp_path / "short.txt"), check=False)
    assert out.returncode == 2 and "expected a text of at least 512 tokens" in out.stderr


@pytest.mark.parametrize("kv_format, least, most", [("q8", 0, 0.01), ("q4", 0.001, 1), ("k8v4", 0.0005, 0.2)])
def test_a_quantised_cache_beside_a_plain_one(penstock, smollm2, tmp_path, kv_format, least, most):
    (tmp_path / "text.txt").write_text(" ".join(f"On day {i} the clocks struck {i * 7 % 12} and the sea was calm." for i in range(40)))
    command = ("perplexity", smollm2, str(tmp_path / "text.txt"), "--executor", "cpu", "--window", "128", "--windows", "2", "--exact", "--against-plain-cache", "--json")
    result = json.loads(penstock(*command, "--kv-format", kv_format).stdout)
    assert f"{kv_format} cache" in result["executor_detail"]
    assert least < result["mean_kl"] < most and result["perplexity"] != result["plain_cache_perplexity"]
    plain = json.loads(penstock(*command).stdout)
    assert plain["mean_kl"] == pytest.approx(0, abs=1e-12) and plain["perplexity"] == result["plain_cache_perplexity"]


def test_other_formats_and_other_executors_are_refused(penstock, model, text, has_mlx):
    out = penstock("perplexity", model, text, "--kv-format", "q5", check=False)
    assert out.returncode == 2 and "auto, q8, q4, k8v4" in out.stderr
    out = penstock("generate", model, "a", "--executor", "mlx", "--kv-format", "q8", check=False)
    assert out.returncode == 2 and "the executor mlx does not quantise keys and values" in out.stderr
