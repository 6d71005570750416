"""bench/compare.py on stand-ins for the programs it times."""
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTES = {"executor_detail": "avx2, 2 threads", "weight_bytes_per_token": 90000000, "decode_bytes_per_s": 15e9, "percent_of_read_bandwidth": 93.75,
         "read_bandwidth_bytes_per_s": 16e9, "read_streams": 4, "weights_fit_in_cache": False, "last_level_cache_bytes": 32000000}
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


def test_the_table_says_what_a_speed_rests_on(tmp_path):
    status, out = compare("--penstock", program(tmp_path / "penstock", json.dumps(BENCH | NOTES)), "--model", "m.gguf", "--rounds", "1")
    assert status == 0
    for words in ("avx2, 2 threads", "logits ab", "90.0 MB of weights a token, 15.0 GB/s, 94 % of 16.0 GB/s read with 4 streams a thread",
                  "weights do not fit in the last-level cache (32 MB)", "OMP_WAIT_POLICY"):
        assert words in out, words


def test_rows_make_one_markdown_table(tmp_path):
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps([{"label": "short", "prompt": 64}, {"label": "deep", "depth": 4096, "gguf": "other.gguf"}]))
    status, out = compare("--penstock", program(tmp_path / "penstock", json.dumps(BENCH | NOTES)), "--model", "m.gguf", "--rows", str(rows),
                          "--llama-bench", program(tmp_path / "llama", json.dumps(LLAMA)), "--rounds", "1")
    table = [line for line in out.splitlines() if line.startswith("|")]
    assert status == 0
    assert len(table) == 2 + 2 * 2
    assert "short: prompt 64, 64 tokens; 1 rounds | penstock | 200.0" in table[2] and "94 %" in table[2]
    assert "llama.cpp" in table[3] and "2.00, 0.50" in table[3]
    assert "deep: prompt 512, 64 tokens, 4096 before them" in table[4] and "other.gguf" in table[5]


def test_a_row_with_a_wrong_name_is_refused(tmp_path):
    rows = tmp_path / "rows.json"
    rows.write_text('[{"promt": 64}]')
    done = subprocess.run([sys.executable, str(ROOT / "bench/compare.py"), "--penstock", "p", "--model", "m", "--rows", str(rows)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "promt" in done.stderr


# Faster with flash attention, with one thread and, a little, with passive waiting.
CHOOSY = r"""#!/bin/sh
speed=10
case "$*" in *"-fa 1"*) speed=$((speed * 2));; esac
case "$*" in *"-t 1"*) speed=$((speed * 3));; esac
[ "$OMP_WAIT_POLICY" = passive ] && speed=$((speed + 1))
echo '[{"build_commit": "c", "model_type": "m", "n_threads": 1, "avg_ts": '$speed'}]'
"""


def test_llama_gets_its_best_choices(tmp_path):
    llama = tmp_path / "llama"
    llama.write_text(CHOOSY)
    llama.chmod(0o755)
    status, out = compare("--penstock", program(tmp_path / "penstock", json.dumps(BENCH)), "--model", "m.gguf", "--llama-bench", str(llama),
                          "--llama-flash", "0,1", "--llama-threads", "1,2", "--llama-wait", "active,passive", "--rounds", "2", "--json")
    result = json.loads(out)
    assert status == 0
    assert result["figures"]["llama.cpp"]["decode"]["median"] == 61
    assert result["notes"]["llama.cpp"]["choices"]["decode"] == {"flash": "1", "threads": "1", "wait": "passive"}


SERVER = r"""#!/usr/bin/env python3
import json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert body["ignore_eos"] and body["stream"]
        self.send_response(200); self.end_headers()
        for i in range(body["max_tokens"]):
            self.wfile.write(b'data: {"choices": [{"text": "a"}]}\n\n'); self.wfile.flush(); time.sleep(0.01)
        self.wfile.write(b'data: {"choices": [], "usage": {"completion_tokens": %d}}\n\ndata: [DONE]\n\n' % body["max_tokens"])
    def log_message(self, *a): pass
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def test_servers_meet_the_same_clients(tmp_path):
    for name in ("penstock", "llama"):
        (tmp_path / name).write_text(SERVER)
        (tmp_path / name).chmod(0o755)
    status, out = compare("--penstock", str(tmp_path / "penstock"), "--model", "m.gguf", "--clients", "3", "--llama-server", str(tmp_path / "llama"),
                          "--prompt", "8", "--gen", "30", "--rounds", "1", "--json")
    result = json.loads(out)
    assert status == 0, result["left_out"]
    for name in ("penstock", "llama.cpp"):
        assert result["figures"][name]["whole"]["median"] > 0
        assert result["figures"][name]["decode"]["median"] < 310  # three streams of at most 100 a second
    assert "-np 3" in result["notes"]["llama.cpp"]["command"] and "--max-num-seqs 3" in result["notes"]["penstock"]["command"]
