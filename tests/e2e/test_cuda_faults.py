"""A kernel that traps under a server: the answer ends with the reason, and so does the server, by itself."""
import json
import os
import re

import pytest
from scripted_server import BUILD, ModelServer, receive_until

TRAP = BUILD / "tests/e2e/device_trap.so"
MODEL = os.environ.get("PENSTOCK_TEST_MODEL", "smollm2")


def test_a_trap_ends_the_answer_and_the_server(penstock, tmp_path):
    if not re.search(r"^executor +cuda +(?!not here)\S", penstock("doctor").stdout, re.M):
        pytest.skip("skipped: no CUDA device")
    now = tmp_path / "now"
    server = ModelServer(MODEL, tmp_path, ["--executor", "cuda"], {"LD_PRELOAD": str(TRAP), "DEVICE_TRAP_FILE": str(now)})
    try:
        with server.open_stream("Count.", max_tokens=6000, ignore_eos=True) as stream:
            receive_until(stream, b'"delta"')
            now.touch()
            rest = b""
            while more := stream.recv(65536):
                rest += more
        last = json.loads([line for line in rest.decode().splitlines() if line.startswith("data: {")][-1][len("data: "):])
        assert "This process cannot use it any more: start the program again" in last["error"]["message"], last
        assert server.process.wait(30) == 1
        assert "the executor is lost" in server.log_path.read_text()
    finally:
        server.stop()
