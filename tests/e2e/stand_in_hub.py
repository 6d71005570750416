"""A model hub and a package index in one small server, for tests. It speaks the hub's HTTP as its clients see it: the
repository's list of files, HEAD with etag, linked etag, size and commit, redirects of large files to a second port that
plays the content network, ranges, gated repositories; and it misbehaves on request.

    hub = StandInHub(); hub.add_repo("org/name", {"config.json": b"{}"}); hub.start(); hub.endpoint
"""
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LARGE_BYTES = 1024  # files from this size on are kept as the hub keeps large files: etag is SHA-256, bytes elsewhere


def git_blob_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repo:
    def __init__(self, files, **behaviour):
        self.files = files
        self.gated = behaviour.pop("gated", False)  # 401 without the token "good", 403 with another
        self.wrong_bytes = behaviour.pop("wrong_bytes", ())  # files whose bytes do not have the announced digest
        self.drop_after = behaviour.pop("drop_after", 0)  # the connection breaks after so many bytes of a body...
        self.drops = behaviour.pop("drops", 0)  # ... this many times
        self.busy = behaviour.pop("busy", 0)  # so many answers are 503 first
        self.ranges = behaviour.pop("ranges", True)
        self.claims = behaviour.pop("claims", {})  # sizes that are announced and not true
        self.renamed_to = behaviour.pop("renamed_to", None)
        assert not behaviour, behaviour
        self.commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()

    def is_large(self, name):
        return len(self.files[name]) >= LARGE_BYTES

    def size(self, name):
        return self.claims.get(name, len(self.files[name]))

    def etag(self, name):
        data = self.files[name]
        return hashlib.sha256(data).hexdigest() if self.is_large(name) else git_blob_sha1(data)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def hub(self):
        return self.server.hub

    def answer(self, status, body=b"", headers=(), content_type="application/json"):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", content_type)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        split = urlsplit(self.path)
        path = unquote(split.path)
        with self.hub.lock:
            self.hub.requests.append((self.server.role, self.command, self.path, dict(self.headers)))
        if self.server.role == "cdn":
            return self.send_file_of_cdn(path)
        for pattern, method in ((r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", self.send_info),
                                (r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", self.send_tree),
                                (r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.send_resolve),
                                (r"/simple/([^/]+)/", self.send_simple_page)):
            match = re.fullmatch(pattern, path)
            if match:
                return method(*match.groups())
        self.answer(404, b"{}")

    def repo_or_refusal(self, name):
        repo = self.hub.repos.get(name)
        if repo is None:
            self.answer(401 if self.hub.unknown_is_401 else 404, b'{"error": "Repository not found"}',
                        [("X-Error-Code", "RepoNotFound"), ("X-Error-Message", "Repository not found")])
            return None
        if repo.busy > 0:
            repo.busy -= 1
            self.answer(503)
            return None
        token = self.headers.get("Authorization", "")
        if repo.gated and token != "Bearer good":
            self.answer(403 if token else 401, b'{"error": "gated"}',
                        [("X-Error-Code", "GatedRepo"), ("X-Error-Message", "Access to this model is restricted")])
            return None
        return repo

    def send_info(self, name, revision=None):
        repo = self.repo_or_refusal(name)
        if repo is None:
            return
        if revision not in (None, "main", repo.commit):
            self.answer(404, b"{}", [("X-Error-Code", "RevisionNotFound")])
            return
        siblings = [{"rfilename": file} for file in sorted(repo.files)]
        self.answer(200, json.dumps({"id": name, "modelId": name, "sha": repo.commit, "private": False, "gated": False,
                                     "tags": [], "siblings": siblings}).encode())

    def send_tree(self, name, _revision):
        repo = self.repo_or_refusal(name)
        if repo is None:
            return
        entries = []
        for file, data in sorted(repo.files.items()):
            entry = {"type": "file", "path": file, "size": repo.size(file), "oid": git_blob_sha1(data)}
            if repo.is_large(file):
                entry["lfs"] = {"oid": repo.etag(file), "size": repo.size(file), "pointerSize": 130}
            entries.append(entry)
        self.answer(200, json.dumps(entries).encode())

    def send_resolve(self, name, revision, file):
        repo = self.repo_or_refusal(name)
        if repo is None:
            return
        if repo.renamed_to:
            self.answer(307, b"", [("Location", f"/{repo.renamed_to}/resolve/{revision}/{file}")])
            return
        if file not in repo.files or revision not in ("main", repo.commit):
            self.answer(404, b"", [("X-Error-Code", "EntryNotFound"), ("X-Repo-Commit", repo.commit)])
            return
        common = [("X-Repo-Commit", repo.commit), ("ETag", f'"{repo.etag(file)}"')]
        if repo.is_large(file):
            location = f"{self.hub.cdn_endpoint}/{name}/{file}?signature=s3cret"
            common += [("X-Linked-Etag", f'"{repo.etag(file)}"'), ("X-Linked-Size", str(repo.size(file))),
                       ("Location", location)]
            self.answer(302, b"Found", common, "text/plain")
        else:
            self.send_bytes(repo, file, common)

    def send_file_of_cdn(self, path):
        org, name, file = path.strip("/").split("/", 2)
        if org == "packages":
            data = self.hub.archives[file]
            self.send_bytes(Repo({file: data}), file, [])
            return
        self.send_bytes(self.hub.repos[f"{org}/{name}"], file, [("ETag", '"of-the-content-network"')])

    def send_bytes(self, repo, file, headers):
        data = repo.files[file]
        if file in repo.wrong_bytes:
            data = bytes([data[0] ^ 1]) + data[1:]
        begin, status = 0, 200
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted and repo.ranges:
            begin, status = int(wanted[1]), 206
            if begin >= len(data):
                self.answer(416, b"", [("Content-Range", f"bytes */{len(data)}")])
                return
            headers = [*headers, ("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")]
        body = data[begin:]
        if self.command == "GET" and repo.drops > 0 and len(body) > repo.drop_after > 0:
            repo.drops -= 1
            self.send_response(status)
            for header in [*headers, ("Content-Length", str(len(body)))]:
                self.send_header(*header)
            self.end_headers()
            self.wfile.write(body[: repo.drop_after])
            self.wfile.flush()
            self.close_connection = True
            return
        self.answer(status, body, [*headers, ("Content-Length", str(len(body))), ("Accept-Ranges", "bytes")],
                    "application/octet-stream")

    def send_simple_page(self, package):
        files = self.hub.packages.get(package)
        if files is None:
            self.answer(404, b"no such package", content_type="text/plain")
            return
        for name in files:
            self.hub.archives[name] = files[name]
        url = {name: f"{self.hub.cdn_endpoint}/packages/x/{name}" for name in files}
        sha = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        if self.hub.index_is_json:
            page = {"meta": {"api-version": "1.1"}, "name": package,
                    "files": [{"filename": n, "url": url[n], "hashes": {"sha256": sha[n]}} for n in files]}
            self.answer(200, json.dumps(page).encode(), content_type="application/vnd.pypi.simple.v1+json")
        else:
            links = "".join(f'<a href="{url[n]}#sha256={sha[n]}">{n}</a><br>\n' for n in files)
            self.answer(200, f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), content_type="text/html")


class StandInHub:
    def __init__(self):
        self.lock = threading.Lock()
        self.repos, self.packages, self.archives = {}, {}, {}
        self.requests = []  # (role, method, path, headers)
        self.index_is_json = True
        self.unknown_is_401 = True  # as the hub does for a caller without a token
        self.servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
        for server, role in zip(self.servers, ("hub", "cdn")):
            server.hub, server.role, server.daemon_threads = self, role, True
        # Two names for this machine, so that hub and content network are different hosts to a client.
        self.endpoint = f"http://127.0.0.1:{self.servers[0].server_port}"
        self.cdn_endpoint = f"http://localhost:{self.servers[1].server_port}"

    def add_repo(self, name, files, **behaviour):
        self.repos[name] = Repo(files, **behaviour)
        return self.repos[name]

    def start(self):
        for server in self.servers:
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def gets(self, part):
        """Range headers of the GET requests whose path contains `part`, in order."""
        with self.lock:
            return [headers.get("Range") for _, method, path, headers in self.requests if method == "GET" and part in path]
