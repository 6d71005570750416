"""bench/start.py, contention.py and accuracy.py on stand-ins for the programs that they run."""
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program(path, text):
    path.write_text("#!/usr/bin/env python3\n" + text)
    path.chmod(0o755)
    return str(path)


def script(name, *arguments):
    done = subprocess.run([sys.executable, str(ROOT / "bench" / name), *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(bytes(1 << 20))
    return path


def test_start_times_the_first_token_and_the_peak(tmp_path, weights):
    quick = program(tmp_path / "penstock", "import time\nprint('a', flush=True)\ntime.sleep(0.4)\n")
    slow = program(tmp_path / "mlx", "import time\nprint('=' * 10, flush=True)\ntime.sleep(2)\nprint('a', flush=True)\n")
    status, out = script("start.py", "--penstock", quick, "--model", weights, "--mlx-python", slow, "--rounds", 2, "--times-mlx", 1.01, "--json")
    figures = json.loads(out)["figures"]
    assert status == 0, out
    assert figures["mlx_lm.generate"]["min"] >= 2  # the ruler ahead of the text does not count
    assert figures["penstock m.gguf"]["min"] < figures["mlx_lm.generate"]["min"]
    assert 1 << 20 < figures["penstock m.gguf"]["peak_bytes"] < figures["penstock m.gguf"]["allowed_bytes"] == round(1.15 * (1 << 20)) + (64 << 20)


def test_start_names_what_is_missed(tmp_path, weights):
    fat = program(tmp_path / "penstock", "import time\nx = bytearray(200 << 20)\nx[::4096] = b'a' * len(x[::4096])\ntime.sleep(0.2)\nprint('a')\n")
    status, out = script("start.py", "--penstock", fat, "--model", weights, "--rounds", 1, "--within", 0.1)
    assert status == 1
    assert "missed: penstock m.gguf: 2" in out and "s is above 0.1 s" in out


BENCH = """import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.end_headers()
    def log_message(self, *a): pass
if sys.argv[1] == "serve":
    if SPINS:
        import threading
        threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
def busy():
    siblings = open(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read().split()
    return any(b"while True" in open(f"/proc/{pid}/cmdline", "rb").read() for pid in siblings)
print(json.dumps({"decode_tokens_per_s": {"median": BUSY if busy() else 100.0}, "logits_hash": "ab"}))
"""


def bench(tmp_path, spins, busy):
    return program(tmp_path / "penstock", f"SPINS, BUSY = {spins}, {busy}\n" + BENCH)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_contention_compares_busy_with_quiet(tmp_path):
    status, out = script("contention.py", "--penstock", bench(tmp_path, False, 70.0), "--model", "m", "--rounds", 2, "--idle-seconds", 1, "--json")
    report = json.loads(out)
    assert status == 0, out
    assert report["penstock"]["share"] == 0.7 and report["penstock"]["logits_hashes"] == ["ab"]
    assert report["penstock"]["all_quiet"] == [100.0] * 2 and report["penstock"]["all_busy"] == [70.0] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_contention_names_a_slow_and_a_spinning_program(tmp_path):
    status, out = script("contention.py", "--penstock", bench(tmp_path, True, 30.0), "--model", "m", "--rounds", 1, "--idle-seconds", 1)
    assert status == 1
    assert "missed: decoding keeps 30 % of its quiet rate" in out and "missed: an idle server takes" in out


KL = """
Mean PPL(Q)                   :  22.123400 ±   0.9
Mean PPL(base)                :  20.112182 ±   0.8
Mean PPL(Q)/PPL(base)         :   1.100000 ±   0.01
Mean    KLD:   0.105032 ±   0.005114
"""
OURS = {"scored_tokens": 255, "exact_perplexity": 20.0, "perplexity": 20.02, "perplexity_rise_percent": 0.1, "perplexity_rise_error_percent": 0.05, "mean_kl": 0.002,
        "mean_kl_error": 0.0001, "same_likeliest_percent": 97.0}


def accuracy(tmp_path, weights, figures):
    penstock = program(tmp_path / "penstock", f"print('''{json.dumps(figures)}''')\n")
    perplexity = program(tmp_path / "perplexity", f"import sys\nopen(sys.argv[sys.argv.index('--kl-divergence-base') + 1], 'a')\nprint('''{KL}''')\n")
    quantize = program(tmp_path / "quantize", "import sys\nopen(sys.argv[-2], 'w')\n")
    return script("accuracy.py", "--penstock", penstock, "--model", weights, "--scratch", tmp_path / "scratch", "--llama-perplexity", perplexity,
                  "--llama-quantize", quantize, "--windows", 1)


def test_accuracy_puts_both_programs_in_a_row(tmp_path, weights):
    status, out = accuracy(tmp_path, weights, OURS)
    assert status == 0, out
    assert "| m.gguf | 255 | 20.000 | 20.020 | +0.100 % (error 0.050) | 0.00200 (error 0.00010) | 97.0 % | 0.10503 | +10.00 % |" in out
    assert (tmp_path / "scratch/text.txt").stat().st_size > 30_000


@pytest.mark.parametrize("change, words", [({"perplexity_rise_percent": 0.6}, "perplexity rises by 0.60 %"), ({"mean_kl": 0.2}, "KL 0.20000 is above llama.cpp's 0.10503")])
def test_accuracy_is_a_gate(tmp_path, weights, change, words):
    status, out = accuracy(tmp_path, weights, OURS | change)
    assert status == 1 and words in out


def test_the_text_of_the_gate_is_here():
    sys.path.insert(0, str(ROOT / "bench"))
    text = importlib.import_module("accuracy").make_text(None)
    assert b"namespace penstock" in text and b"scheduler" in text
