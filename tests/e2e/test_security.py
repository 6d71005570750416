"""Keys, origins, hostile bodies and headers (SE, OL-04), and the start of the server (ML-16)."""
import http.client
import socket
import subprocess

import pytest
from model_folder import llama, write_model
from scripted_server import binary


def test_SE_03_deeply_nested_bodies(hello):
    for depth in (1000, 100_000):
        body = '{"messages":' + "[" * depth + "]" * depth + "}"
        answer = hello.post("/v1/chat/completions", body)
        assert answer.status == 400 and answer.error["code"] == "request_body_too_deep"
    body = '{"messages":' + '{"a":' * 100_000
    assert hello.post("/v1/chat/completions", body).status == 400
    assert hello.get("/health").status == 200


def test_many_members_do_not_hold_up_the_server(hello):
    """Each of these bodies takes minutes where a member costs a look-up among the others."""
    members = ",".join(f'"{i}":1' for i in range(200_000))
    message = '"messages":[{"role":"user","content":"hi"}]'
    assert hello.post("/v1/chat/completions", "{%s,%s}" % (message, members)).status == 200
    answer = hello.post("/v1/chat/completions", '{%s,"logit_bias":{%s}}' % (message, members))
    assert answer.status == 400 and answer.error["param"] == "logit_bias"
    assert hello.post("/v1/chat/completions", '{%s,"chat_template_kwargs":{%s}}' % (message, members)).status == 200


def test_more_values_than_a_request_needs(hello):
    body = '{"messages":[{"role":"user","content":"hi"}],"metadata":[%s0]}' % ("0," * 1_000_000)
    answer = hello.post("/v1/chat/completions", body)
    assert answer.status == 413 and answer.error["code"] == "request_too_large"
    assert hello.get("/health").status == 200


def test_SE_07_SE_08_keys(start):
    server = start([{"pieces": ["a"]}], "--api-key", "secret")

    def status(path, **headers):
        return server.get(path, headers={k.replace("_", "-"): v for k, v in headers.items()}).status

    for path in ("/v1/models", "/metrics", "/nothing"):
        for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"},
                        {"Authorization": "Bearer s\xe9cret"}, {"X_Api_Key": "wrong"},
                        {"Authorization": "Bearer secret", "X_Api_Key": "wrong"}):
            answer = server.get(path, headers={k.replace("_", "-"): v for k, v in headers.items()})
            assert answer.status == 401 and answer.error["type"] == "authentication_error", (path, headers)
    for path in ("/health", "/healthz", "/readyz", "/livez"):
        assert status(path) == 200
    assert status("/v1/models", Authorization="Bearer secret") == 200
    assert status("/metrics", X_Api_Key="secret") == 200
    answer = server.chat()
    assert answer.status == 401


def test_SE_07_sdk_with_and_without_the_key(start):
    openai = pytest.importorskip("openai")
    server = start([{"pieces": ["a"]}], "--api-key", "secret")
    assert [m.id for m in server.openai(api_key="secret").models.list()] == ["scripted"]
    with pytest.raises(openai.AuthenticationError):
        server.openai(api_key="wrong").models.list()


def test_SE_09_key_from_a_file(start, tmp_path):
    key_file = tmp_path / "key"
    key_file.write_text("from-file\n")
    server = start([{"pieces": ["a"]}], "--api-key-file", str(key_file))
    assert server.get("/v1/models").status == 401
    assert server.get("/v1/models", headers={"Authorization": "Bearer from-file"}).status == 200
    assert "from-file" not in server.log_path.read_text()


def failing_start(tmp_path, *arguments):
    script = tmp_path / "script.json"
    script.write_text('{"replies": [{"pieces": ["a"]}]}')
    done = subprocess.run([binary(), "serve", "--engine", f"scripted:{script}", *arguments], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode != 0
    return done.stderr


def test_SE_07_an_empty_key_file_is_an_error_at_the_start(tmp_path):
    (tmp_path / "key").write_text("\n")
    assert "key" in failing_start(tmp_path, "--port", "0", "--api-key-file", str(tmp_path / "key"))


def test_an_address_that_others_reach_needs_a_key(tmp_path):
    assert "--api-key" in failing_start(tmp_path, "--port", "0", "--host", "0.0.0.0")


def test_ML_16_port_in_use(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert port in failing_start(tmp_path, "--port", port)


def test_ML_16_what_keeps_a_server_from_starting_is_found_before_the_model_is_loaded(penstock, tmp_path):
    folder = write_model(tmp_path / "tiny", llama())
    (tmp_path / "key").write_text("\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for arguments, said in ((["--port", str(taken.getsockname()[1])], "--port"), (["--port", "0", "--host", "0.0.0.0"], "API key"),
                                (["--port", "0", "--api-key-file", str(tmp_path / "key")], "expected a key")):
            out = penstock("serve", folder, *arguments, check=False)
            assert out.returncode != 0 and said in out.stderr and "loading" not in out.stderr, out.stderr


def test_SE_21_request_ids(hello):
    assert hello.get("/health", headers={"x-request-id": "abc-1.2:3_4"}).headers["x-request-id"] == "abc-1.2:3_4"
    for bad in ("a" * 200, "a b", "<x>"):
        got = hello.get("/health", headers={"x-request-id": bad}).headers["x-request-id"]
        assert got.startswith("req_") and got != bad
    first, second = (hello.chat().headers["x-request-id"] for _ in range(2))
    assert first != second
    assert hello.get("/nothing").headers["x-request-id"]
    assert hello.chat(stream=True).headers["x-request-id"]


def test_SE_10_hosts_against_dns_rebinding(start, hello):
    """A page whose name was pointed at this machine is refused, so that it cannot read answers."""
    for path in ("/v1/models", "/health", "/metrics"):
        answer = hello.get(path, headers={"Host": "evil.example:11434"})
        assert answer.status == 403 and answer.error["type"] == "permission_error", path
    assert hello.get("/v1/models", headers={"Host": "localhost:1"}).status == 200
    trusting = start([{"pieces": ["a"]}], "--trusted-hosts", "llm.example.org,other.example.org")
    assert trusting.get("/v1/models", headers={"Host": "llm.example.org"}).status == 200
    assert trusting.get("/v1/models", headers={"Host": "evil.example"}).status == 403
    keyed = start([{"pieces": ["a"]}], "--api-key", "secret")
    assert keyed.get("/v1/models", headers={"Host": "llm.example.org", "Authorization": "Bearer secret"}).status == 200


def test_OL_04_SE_11_cors(start):
    server = start([{"pieces": ["a"]}], "--cors-origins", "https://ui.example", "--api-key", "secret")
    preflight = {"Origin": "https://ui.example", "Access-Control-Request-Method": "POST",
                 "Access-Control-Request-Headers": "authorization,content-type"}
    answer = server.request("OPTIONS", "/v1/chat/completions", headers=preflight)
    assert answer.status in (200, 204)
    assert answer.headers["access-control-allow-origin"] == "https://ui.example"
    assert "authorization" in answer.headers["access-control-allow-headers"].lower()
    assert "POST" in answer.headers["access-control-allow-methods"]
    answer = server.request("OPTIONS", "/v1/chat/completions", headers={**preflight, "Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    ok = {"Authorization": "Bearer secret", "Origin": "https://ui.example"}
    assert server.get("/v1/models", headers=ok).headers["access-control-allow-origin"] == "https://ui.example"
    refused = server.get("/v1/models", headers={"Origin": "https://ui.example"})
    assert refused.status == 401 and refused.headers["access-control-allow-origin"] == "https://ui.example"


def test_SE_11_no_origin_by_default(hello):
    assert "access-control-allow-origin" not in hello.get("/v1/models", headers={"Origin": "https://x"}).headers


def test_unix_socket(start, tmp_path):
    path = str(tmp_path / "s.sock")
    server = start([{"pieces": ["a"]}], "--unix-socket", path)
    assert server.url == f"unix:{path}"
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request("GET", "/v1/models")
    assert connection.getresponse().status == 200
    connection.close()
