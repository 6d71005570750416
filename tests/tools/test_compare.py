"""bench/compare.py on stand-ins for the programs it times."""
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = {"prefill_tokens_per_s": {"median": 200.0}, "decode_tokens_per_s": {"median": 50.0}, "logits_hash": "ab", "read_bandwidth_gb_per_s": 9.0}
LLAMA = [{"build_commit": "c", "model_type": "m", "n_threads": 2, "avg_ts": 100.0}]


def program(path, output, status=0):
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit {status}\n")
    path.chmod(0o755)
    return str(path)


def compare(*arguments):
    done = subprocess.run([sys.executable, str(ROOT / "bench/compare.py"), *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_ratios_and_notes(tmp_path):
    status, out = compare("--penstock", program(tmp_path / "penstock", json.dumps(BENCH)), "--model", "m.gguf",
                          "--llama-bench", program(tmp_path / "llama", json.dumps(LLAMA)), "--rounds", "2", "--json")
    result = json.loads(out)
    assert status == 0
    assert result["ratios"] == {"llama.cpp": {"prefill": 2.0, "decode": 0.5}}
    assert result["notes"]["penstock"] == {"logits_hash": "ab", "read_bandwidth_gb_per_s": 9.0}
    assert result["left_out"] == [{"name": "mlx-lm", "why": "no path given"}]


def test_a_batch_takes_the_decode_speed_of_the_batched_program(tmp_path):
    status, out = compare("--penstock", program(tmp_path / "penstock", json.dumps(BENCH)), "--model", "m.gguf", "--batch", "8",
                          "--llama-bench", program(tmp_path / "llama", json.dumps(LLAMA)),
                          "--llama-batched-bench", program(tmp_path / "batched", 'some text\n{"speed_pp": 1.0, "speed_tg": 25.0}'),
                          "--rounds", "1", "--json")
    assert status == 0
    assert json.loads(out)["ratios"] == {"llama.cpp": {"prefill": 2.0, "decode": 2.0}}


def test_a_failing_peer_is_named_and_left_out(tmp_path):
    status, out = compare("--penstock", program(tmp_path / "penstock", json.dumps(BENCH)), "--model", "m.gguf",
                          "--mlx-python", program(tmp_path / "python", "Trial 1:  prompt_tps=9.0, generation_tps=9.0"),
                          "--llama-bench", program(tmp_path / "llama", "no such model", 1), "--rounds", "1")
    assert status == 0
    assert "left out: llama.cpp (Failed: exit status 1: no such model)" in out
    assert "left out: mlx-lm (Failed: --mlx-model FOLDER is needed beside a GGUF file)" in out
    assert "times this" not in out


def test_no_figure_of_our_own_is_a_failure(tmp_path):
    status, out = compare("--penstock", program(tmp_path / "penstock", "{}", 1), "--model", "m.gguf", "--rounds", "1")
    assert status == 1
    assert "left out: penstock" in out
