"""Where the built programs are (PENSTOCK_BUILD_DIR, or build/ of the repository), and servers over the scripted engine."""
import os
from pathlib import Path

import pytest
from scripted_server import HELLO, Server

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
