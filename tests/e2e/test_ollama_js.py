"""The Ollama surface through the official JavaScript SDK, where node is there."""
import json
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "js"
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'


@pytest.fixture(scope="module")
def node():
    """Runs a script of tests/js; the packages are installed once."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if not (FOLDER / "node_modules/ollama").exists():
        done = subprocess.run(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=FOLDER,
                              capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            pytest.skip(f"npm cannot install the SDK: {done.stderr[-300:]}")

    def run(script, *arguments):
        done = subprocess.run(["node", script, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_the_javascript_sdk(node, start, tmp_path):
    server = start({"model": "org/small", "names": ["small"], "tool_format": "hermes", "reasoning_format": "think",
                    "replies": [{"match": "slow", "pieces": ["a", "b"], "delays_ms": [0, 60000]},
                                {"match": "call please", "pieces": ["<think>", "well", "</think>", CALL]},
                                {"pieces": ["Hel", "lo", ", ", "world"]}]}, "--state-dir", str(tmp_path / "state"))
    got = node("ollama.mjs", server.url, "small")
    assert got["chat"]["content"] == got["streamed"] == "Hello, world" and got["lastDone"] is True
    assert got["chat"]["done"] is True and got["chat"]["reason"] == "stop" and got["chat"]["count"] > 0
    assert got["generated"] == "Hello, " and got["generateReason"] == "length"
    assert [c["function"] for c in got["calls"]] == [{"name": "weather", "arguments": {"city": "Paris"}}] and got["thinking"] == "well"
    assert got["tags"] == ["org/small:latest"] == got["running"] and "completion" in got["capabilities"] and got["version"]
    assert got["copied"] == ["org/small:latest", "copied:latest"]
    assert got["error"] == {"name": "ResponseError", "message": "model 'nobody' not found", "status": 404}
    assert got["first"] == "a"
    server.wait_metric("requests_running", 0)
    assert server.metric("requests_cancelled_via_disconnect_total") == 1
