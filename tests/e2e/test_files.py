"""Uploaded files through the official SDK, and as input of responses."""
import json

import pytest
from test_responses import SCRIPT, prompt_of, refused


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from scripted_server import Server
    one = Server(SCRIPT, tmp_path_factory.mktemp("files"), ["--max-body-bytes", "100000"])
    yield one
    one.stop()


@pytest.fixture(scope="module")
def client(server):
    return server.openai()


def upload(client, data=b"one\ntwo", name="notes.txt", purpose="user_data", **fields):
    return client.files.create(file=(name, data), purpose=purpose, **fields)


def test_a_file_comes_back(client):
    data = bytes(range(256)) * 10
    file = upload(client, data, "a b\"c.bin", "assistants")
    assert file.id.startswith("file-") and (file.object, file.bytes, file.filename, file.purpose, file.status) == (
        "file", 2560, 'a b"c.bin', "assistants", "processed")
    assert client.files.retrieve(file.id).to_dict() == file.to_dict()
    assert client.files.content(file.id).read() == data
    deleted = client.files.delete(file.id)
    assert deleted.deleted and deleted.id == file.id
    for function in (client.files.retrieve, client.files.delete, client.files.content):
        assert refused(function, file_id=file.id)[0] == 404


def test_lists_and_purposes(client):
    ids = [upload(client, purpose=p).id for p in ("batch", "evals", "batch")]
    assert [f.id for f in client.files.list(purpose="batch", limit=1)] == [ids[2], ids[0]], "the SDK goes on by itself"
    assert [f.id for f in client.files.list(order="asc")][-3:] == ids
    assert client.files.list(purpose="fine-tune").data == []
    assert refused(client.files.list, order="up")[:2] == (400, "order")


def test_expiry(client):
    file = upload(client, expires_after={"anchor": "created_at", "seconds": 3600})
    assert abs(file.expires_at - file.created_at - 3600) <= 1
    assert refused(upload, client=client, expires_after={"anchor": "created_at", "seconds": 60})[:2] == (400, "expires_after[seconds]")


def test_what_is_no_upload(server, client):
    assert refused(upload, client=client, purpose="fun")[:2] == (400, "purpose")
    assert server.post("/v1/files", {"purpose": "batch"}).status == 415
    for body in (b"", b"--X\r\n", b"--X\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--X--\r\n"):
        answer = server.request("POST", "/v1/files", body, {"Content-Type": "multipart/form-data; boundary=X"})
        assert answer.status == 400, answer.body
    assert refused(upload, client=client, data=b"x" * 200000)[0] == 413
    for path in ("/v1/files/..%2f..%2fpenstock.db", "/v1/files/..%2f..%2fpenstock.db/content", "/v1/files/%2e%2e"):
        assert server.get(path).status == 404


def test_a_file_is_input_of_a_response(client):
    file = upload(client, "grüße\n".encode())
    content = [{"type": "input_file", "file_id": file.id}, {"type": "input_text", "text": "report"}]
    assert prompt_of(client, input=[{"role": "user", "content": content}]) == "[user]File notes.txt:\ngrüße\n\n\nreport\n[assistant]"
    first = client.responses.create(model="scripted", input=[{"role": "user", "content": content[:1] + [{"type": "input_text", "text": "hi"}]}])
    assert prompt_of(client, input="report", previous_response_id=first.id).startswith("[user]File notes.txt:\ngrüße\n\n\nhi\n[assistant]Hello, world\n")
    assert client.responses.input_items.list(first.id).data[0].content[0].file_id == file.id
    client.files.delete(file.id)
    assert refused(client.responses.create, model="scripted", input="x", previous_response_id=first.id)[0] == 404
    binary = upload(client, b"\xff\xfe")
    status, param, message = refused(client.responses.create, model="scripted", input=[
        {"role": "user", "content": [{"type": "input_file", "file_id": binary.id}]}])
    assert (status, param) == (400, "input") and "text" in message


def test_files_survive_a_kill(tmp_path):
    from scripted_server import Server
    state = ["--state-dir", str(tmp_path / "state")]
    server = Server(SCRIPT, tmp_path, state)
    file = upload(server.openai(), b"kept")
    server.kill()
    server = Server(SCRIPT, tmp_path, state)
    try:
        assert server.openai().files.content(file.id).read() == b"kept"
    finally:
        server.stop()


# --- batches ----------------------------------------------------------------------------------------------------------

def batch_file(client, url, bodies):
    lines = [json.dumps({"custom_id": f"c{n}", "method": "POST", "url": url, "body": body}) for n, body in enumerate(bodies)]
    return upload(client, "\n".join(lines).encode(), "requests.jsonl", "batch")


def wait_for(client, batch, *statuses):
    import time
    until = time.monotonic() + 60
    while batch.status not in statuses:
        assert time.monotonic() < until, batch
        time.sleep(0.01)
        batch = client.batches.retrieve(batch.id)
    return batch


def lines_of(client, file_id):
    return [json.loads(line) for line in client.files.content(file_id).text.splitlines()]


CHAT = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("url, body, text", [
    ("/v1/chat/completions", CHAT, lambda b: b["choices"][0]["message"]["content"]),
    ("/v1/completions", {"model": "scripted", "prompt": "hi"}, lambda b: b["choices"][0]["text"]),
    ("/v1/responses", {"model": "scripted", "input": "hi"}, lambda b: b["output"][0]["content"][0]["text"])])
def test_a_batch(client, url, body, text):
    file = batch_file(client, url, [body, {"model": "unknown", **{k: v for k, v in body.items() if k != "model"}}, body])
    batch = client.batches.create(input_file_id=file.id, endpoint=url, completion_window="24h", metadata={"a": "b"})
    assert batch.id.startswith("batch_") and batch.object == "batch" and batch.metadata == {"a": "b"}
    assert batch.expires_at == batch.created_at + 24 * 3600
    done = wait_for(client, batch, "completed", "failed")
    assert (done.request_counts.total, done.request_counts.completed, done.request_counts.failed) == (3, 2, 1)
    good = lines_of(client, done.output_file_id)
    assert [line["custom_id"] for line in good] == ["c0", "c2"]
    for line in good:
        assert line["error"] is None and line["response"]["status_code"] == 200 and line["response"]["request_id"]
        assert text(line["response"]["body"]) == "Hello, world"
    (bad,) = lines_of(client, done.error_file_id)
    assert bad["response"]["status_code"] == 404 and bad["response"]["body"]["error"]["code"] == "model_not_found"
    assert client.files.retrieve(done.output_file_id).purpose == "batch_output"
    assert [b.id for b in client.batches.list(limit=1)][0] == batch.id


def test_what_is_no_batch(client):
    file = batch_file(client, "/v1/completions", [{"prompt": "x"}])
    create = client.batches.create
    good = {"input_file_id": file.id, "endpoint": "/v1/completions", "completion_window": "24h"}
    assert refused(create, **{**good, "endpoint": "/v1/files"})[:2] == (400, "endpoint")
    assert refused(create, **{**good, "completion_window": "1h"})[:2] == (400, "completion_window")
    assert refused(create, **{**good, "input_file_id": "file-0"})[:2] == (404, "input_file_id")
    assert refused(create, **{**good, "input_file_id": upload(client).id})[:2] == (400, "input_file_id")
    assert refused(client.batches.retrieve, batch_id="batch_0")[0] == 404
    failed = wait_for(client, create(**{**good, "endpoint": "/v1/responses"}), "failed")
    assert failed.errors.data[0].line == 1 and failed.errors.data[0].param == "url"


def test_a_cancelled_batch(server, client):
    bodies = [{"model": "scripted", "messages": [{"role": "user", "content": "steady"}]}] * 30
    batch = client.batches.create(input_file_id=batch_file(client, "/v1/chat/completions", bodies).id,
                                  endpoint="/v1/chat/completions", completion_window="24h")
    wait_for(client, batch, "in_progress")
    assert client.batches.cancel(batch.id).status == "cancelling"
    done = wait_for(client, batch, "cancelled")
    assert done.request_counts.completed < 30 and done.cancelled_at
    assert refused(client.batches.cancel, batch_id=batch.id)[0] == 400


def test_a_batch_goes_on_after_a_kill_and_beside_live_requests(tmp_path):
    from scripted_server import Server
    state = ["--state-dir", str(tmp_path / "state")]
    script = {**SCRIPT, "max_num_seqs": 4}
    server = Server(script, tmp_path, state)
    client = server.openai()
    bodies = [{"model": "scripted", "messages": [{"role": "user", "content": "steady"}]}] * 12
    batch = client.batches.create(input_file_id=batch_file(client, "/v1/chat/completions", bodies).id,
                                  endpoint="/v1/chat/completions", completion_window="24h")
    assert client.chat.completions.create(**CHAT).choices[0].message.content == "Hello, world"
    while client.batches.retrieve(batch.id).request_counts.completed < 3:
        pass
    before = client.batches.retrieve(batch.id).request_counts.completed
    assert before < 12
    server.kill()
    server = Server(script, tmp_path, state)
    try:
        client = server.openai()
        done = wait_for(client, batch, "completed")
        assert (done.request_counts.completed, done.request_counts.failed) == (12, 0)
        lines = lines_of(client, done.output_file_id)
        assert [line["custom_id"] for line in lines] == [f"c{n}" for n in range(12)]
        assert all(line["response"]["body"]["choices"][0]["message"]["content"] == "word " * 50 for line in lines)
        assert server.metric("requests_processed_total") <= 12 - before, "what was answered is not computed again"
    finally:
        server.stop()
