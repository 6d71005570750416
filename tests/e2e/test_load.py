"""bench/load.py in small: each run is made, counts what it should, and says so when a goal is missed. No goal of time is asserted here."""
import json
import subprocess
import sys
from pathlib import Path

import pytest
from model_folder import llama, write_model

LOAD = Path(__file__).resolve().parents[2] / "bench" / "load.py"


@pytest.fixture
def load(binary):
    def run(command, *arguments):
        out = subprocess.run([sys.executable, LOAD, command, "--penstock", binary, "--json", *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False)
        assert out.returncode in (0, 1), out.stderr
        report = json.loads(out.stdout)
        assert out.returncode == (1 if report["missed"] else 0)
        return report

    return run


def test_streams_counts_every_token(load):
    report = load("streams", "--streams", 60, "--tokens", 30, "--every-ms", 50, "--most-us", 1e6, "--least-events", 0.5)
    assert report["missed"] == [] and report["tokens"] == 60 * 30
    assert report["us_per_token"] > 0 and 0.5 <= report["events_per_token"] <= 1


def test_streams_says_what_is_missed(load):
    report = load("streams", "--streams", 4, "--tokens", 200, "--every-ms", 1, "--most-us", 1e-6, "--least-events", 0)
    assert len(report["missed"]) == 1 and "us of the server's processor time" in report["missed"][0]


def test_soak_has_every_kind_of_request_right(load):
    report = load("soak", "--requests", 300, "--first", 100, "--at-once", 16, "--most-growth", 2)
    assert report["missed"] == [] and report["wrong"] == 0
    assert set(report["kinds"]) == {"whole", "streamed", "cancelled", "bad", "long"} and sum(report["kinds"].values()) == 300


def test_overload_answers_or_refuses_everybody(load):
    report = load("overload", "--seconds", 2, "--least-share", 0.2)
    assert [m for m in report["missed"] if "were wanted" not in m] == []
    assert report["lost"] == 0 and report["refused"] > 0 and report["answered"] + report["refused"] == report["sent"]


def test_cancels_leave_no_block_behind(load, tmp_path):
    model = write_model(tmp_path / "model", llama(max_position_embeddings=1024))
    report = load("cancels", "--model", model, "--seconds", 3, "--serve-args", "--executor cpu")
    assert report["missed"] == [] and report["cancelled"] > 0
    assert report["left"] == {"blocks_used": 0, "sequences_running": 0, "sequences_waiting": 0, "requests_running": 0}
