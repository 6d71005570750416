"""What an operator does with a running server: quiesce, drain, suspend, resume, and cancelling by id."""
import json
import threading
import time

from scripted_server import receive_until

SLOW = {"match": "slow", "pieces": ["a", "b"], "delays_ms": [0, 60000]}
SHORT = {"match": "short", "pieces": ["a", "b"], "delays_ms": [0, 500]}


def id_of(data):
    return json.loads(data.decode().split("data: ")[1].split("\n")[0])["id"]


def test_a_stream_is_cancelled_by_its_id(start):
    server = start([SLOW])
    connection = server.open_stream("slow")
    data = receive_until(connection, b'"a"')
    answer = server.post(f"/v1/requests/{id_of(data)}/cancel", None)
    assert answer.status == 200 and answer.json == {"id": id_of(data), "status": "cancelling"}
    data = receive_until(connection, b"}}\n\n")
    assert b'"code":"cancelled"' in data and b"[DONE]" not in data
    server.wait_metric("requests_running", 0)
    assert server.metric("requests_cancelled_total") == 1
    assert server.metric("requests_cancelled_via_disconnect_total") == 0


def test_unknown_and_ended_ids_are_404(start):
    server = start([{"pieces": ["x"]}])
    for one in ("chatcmpl-none", server.chat().json["id"]):
        answer = server.post(f"/v1/requests/{one}/cancel", None)
        assert answer.status == 404 and answer.error["param"] == "id"


def test_a_quiesced_server_refuses_and_goes_on(start):
    server = start([SHORT, {"pieces": ["x"]}])
    connection = server.open_stream("short")
    receive_until(connection, b'"a"')
    assert server.post("/v1/admin/quiesce", None).json == {"state": "quiesced", "running": 1}
    refused = server.chat()
    assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1 and refused.error["code"] == "unavailable"
    for probe in ("/health", "/healthz", "/readyz"):
        assert server.get(probe).status == 503 and server.get(probe).json["status"] == "quiesced"
    assert server.get("/livez").status == 200 and server.get("/livez").json["state"] == "quiesced"
    assert server.get("/v1/models").status == 200
    assert b"[DONE]" in receive_until(connection, b"[DONE]"), "what runs goes on"
    assert server.post("/v1/admin/resume", {}).json == {"state": "running", "running": 0}
    assert server.get("/readyz").status == 200
    assert server.chat().text == "x"


def test_a_drain_answers_when_nothing_runs(start):
    server = start([SHORT])
    connection = server.open_stream("short")
    receive_until(connection, b'"a"')
    drained = server.post("/v1/admin/drain", None)
    assert drained.status == 200 and drained.json == {"state": "drained", "running": 0}
    assert b"[DONE]" in receive_until(connection, b"[DONE]")
    assert server.get("/health").json["status"] == "drained"


def test_a_drain_with_a_limit_says_that_it_goes_on(start):
    server = start([SLOW])
    connection = server.open_stream("slow")
    receive_until(connection, b'"a"')
    answer = server.post("/v1/admin/drain", {"timeout_ms": 100})
    assert answer.status == 202 and answer.json == {"state": "draining", "running": 1}
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(server.post("/v1/admin/suspend", None)))
    waiter.start()
    while server.get("/health").json["status"] != "suspending":
        time.sleep(0.01)
    connection.close()
    waiter.join(60)
    assert answers[0].status == 200 and answers[0].json == {"state": "suspended", "running": 0}
    assert server.post("/v1/admin/resume", None).json["state"] == "running"


def test_admin_bodies_are_strict(start):
    server = start([{"pieces": ["x"]}])
    for body in ({"timeout": 5}, {"timeout_ms": "5"}, {"timeout_ms": -1}):
        assert server.post("/v1/admin/drain", body).status == 400
    assert server.get("/readyz").status == 200, "nothing was done"


def test_admin_routes_need_the_key(start):
    server = start([{"pieces": ["x"]}], "--api-key", "secret")
    for path in ("/v1/admin/quiesce", "/v1/requests/x/cancel"):
        assert server.post(path, None).status == 401
    assert server.get("/readyz").status == 200


def test_the_time_to_retry_follows_the_work(start):
    """Two seconds for each, one at a time: the third in the queue is told of at least three turns."""
    server = start({"max_num_seqs": 1, "max_queue": 2, "replies": [{"pieces": ["a"], "delays_ms": 2000}]})
    assert server.chat().status == 200
    streams = [server.open_stream()]
    server.wait_metric("sequences_running", 1)
    streams += [server.open_stream(), server.open_stream()]
    server.wait_metric("sequences_waiting", 2)
    refused = server.chat()
    assert refused.status == 429
    assert 6 <= int(refused.headers["retry-after"]) <= 60, refused.headers
    for stream in streams:
        stream.close()
