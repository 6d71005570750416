"""The settings table: the page in docs/ is what the table says, and a bad table is refused."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "src/config/settings.json"


def generate(table, *args):
    return subprocess.run([sys.executable, ROOT / "tools/gen_settings.py", table, *args], capture_output=True, text=True)


def test_the_page_is_current(tmp_path):
    page = tmp_path / "settings.md"
    assert generate(TABLE, "--page", page).returncode == 0
    assert page.read_text() == (ROOT / "docs/reference/settings.md").read_text(), (
        "run: tools/gen_settings.py src/config/settings.json --page docs/reference/settings.md")


@pytest.mark.parametrize("change", [{"default": 70000}, {"type": "number"}, {"name": "Port"}, {"scope": "user"},
                                    {"help": "Ends with a full stop."}, {"unit": "ms"}])
def test_a_bad_row_is_refused(tmp_path, change):
    row = {"name": "port", "type": "int", "default": 1, "min": 0, "max": 65535, "scope": "process", "help": "Port"}
    table = tmp_path / "settings.json"
    table.write_text(json.dumps({"settings": [row]}))
    assert generate(table, "--page", tmp_path / "page.md").returncode == 0
    table.write_text(json.dumps({"settings": [{**row, **change}]}))
    assert generate(table, "--page", tmp_path / "page.md").returncode != 0
