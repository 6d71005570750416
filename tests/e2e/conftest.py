"""Where the built programs are: PENSTOCK_BUILD_DIR, or build/ of the repository."""
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def build_dir():
    return Path(os.environ.get("PENSTOCK_BUILD_DIR", ROOT / "build"))
