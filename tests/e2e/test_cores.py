"""How many threads the program takes: the cores of its affinity, at most those that its cgroup pays for; and that it can be told which kernels."""
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from model_folder import llama, write_model

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="affinity and cgroups are Linux's")


def usable(penstock_output):
    return int(re.search(r"^cores\s+\d+, (\d+) usable", penstock_output, re.M)[1])


def pinned(command, cores):
    return subprocess.run(list(map(str, command)), preexec_fn=lambda: os.sched_setaffinity(0, cores), capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("cores") / "tiny", llama())


def bench(model, *arguments):
    return ["bench", model, "--executor", "cpu", "--prompt", "8", "--gen", "4", "--repeat", "1", "--json", *arguments]


@LINUX
def test_one_thread_for_each_core_of_the_affinity(binary, model):
    mine = sorted(os.sched_getaffinity(0))
    assert 1 <= usable(pinned([binary, "doctor"], mine)) <= len(mine)
    assert usable(pinned([binary, "doctor"], mine[:1])) == 1
    assert ", 1 threads," in json.loads(pinned([binary, *bench(model)], mine[:1]))["executor_detail"]
    asked = json.loads(pinned([binary, *bench(model, "--threads", "2")], mine[:1]))  # who asks for more gets it
    assert ", 2 threads," in asked["executor_detail"]


@pytest.fixture
def cgroup():
    """A fresh cgroup whose quota of processor time may be set; (folder, write of the quota in cores)."""
    v2 = Path("/sys/fs/cgroup/cgroup.controllers")
    if v2.exists() and "cpu" in v2.read_text().split():
        root, quota = Path("/sys/fs/cgroup"), lambda folder, cores: (folder / "cpu.max").write_text(f"{int(cores * 100_000)} 100000")
    else:
        root, quota = Path("/sys/fs/cgroup/cpu"), lambda folder, cores: (folder / "cpu.cfs_quota_us").write_text(str(int(cores * 100_000)))
    folder = root / f"penstock-test-{os.getpid()}"
    try:
        folder.mkdir()
        quota(folder, 1)
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no cgroup of our own: {error}")
    yield folder, lambda cores: quota(folder, cores)
    folder.rmdir()


@LINUX
@pytest.mark.parametrize("cores", [0.5, 1, 1.5])
def test_the_quota_of_the_cgroup_is_a_limit(binary, cgroup, cores):
    folder, set_quota = cgroup
    set_quota(cores)
    out = subprocess.run([binary, "doctor"], preexec_fn=lambda: (folder / "cgroup.procs").write_text(str(os.getpid())), capture_output=True, text=True, check=True).stdout
    free = usable(subprocess.run([binary, "doctor"], capture_output=True, text=True, check=True).stdout)
    assert usable(out) == min(free, -(-cores // 1))


def test_kernels_can_be_chosen(penstock, model):
    def detail(*arguments, environment=None):
        return json.loads(penstock(*bench(model, *arguments), environment=environment).stdout)

    scalar, best = detail("--cpu-instructions", "scalar"), detail()
    assert scalar["executor_detail"].startswith("scalar, ") and not best["executor_detail"].startswith("scalar, ")
    assert scalar["logits_hash"] == best["logits_hash"]  # every table gives the same bits
    assert detail(environment={"PENSTOCK_CPU_INSTRUCTIONS": "scalar"})["executor_detail"] == scalar["executor_detail"]


def test_kernels_of_another_processor_are_refused(penstock, model):
    other = "neon" if os.uname().machine == "x86_64" else "avx2"
    out = penstock(*bench(model, "--cpu-instructions", other), check=False)
    assert out.returncode == 2 and "expected a processor with" in out.stderr
