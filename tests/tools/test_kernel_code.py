"""What the compiler made of the kernels, where a result cannot show it: GCC 12 drops prefetches that stand in a function of their own."""
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

LIBRARY = Path(os.environ.get("PENSTOCK_BUILD_DIR", Path(__file__).resolve().parents[2] / "build")) / "src/exec/cpu/libpenstock_exec_cpu.a"


@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("objdump"), reason="reads x86 code with objdump")
def test_code_kernels_ask_for_memory_ahead():
    code = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", str(LIBRARY)], capture_output=True, text=True, check=True).stdout
    functions = {name: body for name, body in re.findall(r"^[0-9a-f]+ <(.*)>:\n((?:.+\n)*)", code, re.M)}
    # Template arguments of panel_tile: codes, half groups, unpacks, asks ahead, activation rows.
    readers = [body for name, body in functions.items()
               if "::strips_tile<" in name or re.search(r"::one_row(_flat|_nested)?[<(]", name) or re.search(r"::panel_tile<.*, (true|false), (true|false), true, \d>", name)]
    # Of AVX2, with the seven layouts and four of them with groups of 16 columns too: two and three rows, two kinds of panels; one row with the
    # scales of each type, and of E4M3 numbers. Of AVX-512 those that are not inlined.
    assert len(readers) >= (7 + 4) * (2 + 2) + 31 + 1, "a layout of codes has lost its tiles"
    assert all("prefetch" in body for body in readers)
