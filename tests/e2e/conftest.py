"""Where the built programs are (PENSTOCK_BUILD_DIR, or build/ of the repository), and servers over the scripted engine."""
import os
import subprocess
from pathlib import Path

import pytest
from scripted_server import HELLO, Server
from scripted_server import binary as program

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def build_dir():
    return Path(os.environ.get("PENSTOCK_BUILD_DIR", ROOT / "build"))


@pytest.fixture
def start(tmp_path):
    """start(script, *arguments): a server, stopped at the end of the test."""
    servers = []

    def make(script, *arguments, environment=None):
        if isinstance(script, list):
            script = {"replies": script}
        servers.append(Server(script, tmp_path, arguments, environment))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def hello(tmp_path_factory):
    """One server for tests that leave it as it was."""
    server = Server(HELLO, tmp_path_factory.mktemp("hello"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def binary():
    return program()


@pytest.fixture(scope="session")
def penstock(binary):
    """penstock(*arguments): runs the program; a failure shows what it said unless check=False."""

    def run(*arguments, check=True, input=None, timeout=600, environment=None):
        out = subprocess.run([binary, *arguments], input=input, capture_output=True, text=True, timeout=timeout,
                             env={**os.environ, **(environment or {})}, **({} if input is not None else {"stdin": subprocess.DEVNULL}))
        assert not check or out.returncode == 0, f"status {out.returncode}: {out.stderr}"
        return out

    return run


@pytest.fixture(scope="session")
def smollm2(penstock):
    """The default model, pulled when it is not here yet."""
    penstock("pull", "smollm2", timeout=1800)
    return "smollm2"


@pytest.fixture(scope="session")
def has_mlx(penstock):
    if "mlx" not in penstock("doctor").stdout:
        pytest.skip("this build has no MLX")
