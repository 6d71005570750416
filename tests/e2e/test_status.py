"""What a server tells of itself: histograms, /v1/status, the log's lines, ids and traces. Never the text of a request."""
import json
import re

import pytest

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
SECRET = "a text that nobody else may read"
SCRIPT = {"model": "org/told", "replies": [
    {"match": "fail", "pieces": ["a"], "finish": "error", "error": "on purpose"},
    {"match": "slow", "pieces": ["a", "b"], "delays_ms": [0, 60000]},
    {"match": "cached", "pieces": ["a", "b"], "cached_tokens": 7},
    {"pieces": ["an ", "answer ", "of ", "four"], "delays_ms": 2}]}
ALL = r'model="org/told",surface="{surface}",outcome="{outcome}"'


def samples(server, name):
    """By labels."""
    page = server.get("/metrics").body.decode()
    return {labels: float(value) for labels, value in re.findall(rf"^penstock_{name}{{([^}}]*)}} (\S+)$", page, re.MULTILINE)}


def log_requests(server):
    """The fields of each line of a request, in either format of the log."""
    lines = server.log_path.read_text().splitlines()
    objects = [json.loads(line) for line in lines if line.startswith("{")]  # the program's own words at start and end are none
    if objects:
        return [line for line in objects if line.get("event") == "request"]
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines if " request id=" in line]


def test_histograms_by_model_surface_and_outcome(start):
    server = start(SCRIPT)
    server.chat()
    server.chat(max_tokens=2)
    server.stream()
    server.post("/v1/completions", {"prompt": "hi"})
    server.chat("fail")
    server.chat(temperature=9)
    server.chat("x" * 5000)
    counts = samples(server, "request_duration_seconds_count")
    wanted = {("openai_chat", "stop"): 2, ("openai_chat", "length"): 1, ("openai_completions", "stop"): 1, ("openai_chat", "failed"): 1, ("openai_chat", "refused"): 1}
    assert counts == {ALL.format(surface=s, outcome=o): n for (s, o), n in wanted.items()}, "a field that is wrong is no request of the engine"
    stop = ALL.format(surface="openai_chat", outcome="stop")
    for name in ("queue_seconds", "time_to_first_token_seconds", "time_per_token_seconds"):
        assert samples(server, name + "_count")[stop] == 2, name
    assert samples(server, "inter_token_seconds_count")[stop] == 2 * 3, "gaps between four tokens"
    assert samples(server, "inter_token_seconds_sum")[stop] > 0
    buckets = {k: v for k, v in samples(server, "inter_token_seconds_bucket").items() if k.startswith(stop)}
    values = list(buckets.values())
    assert values == sorted(values) and values[-1] == 6 and buckets[stop + ',le="+Inf"'] == 6
    assert ALL.format(surface="openai_chat", outcome="refused") not in samples(server, "queue_seconds_count")


def test_cached_tokens_are_told_everywhere(start):
    server = start(SCRIPT)
    answer = server.chat("cached").json
    assert answer["penstock"]["cached_tokens"] == answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 7
    assert answer["penstock"]["preemptions"] == 0
    assert server.stream("cached").receipt["cached_tokens"] == 7
    assert samples(server, "prompt_tokens_cached_total")[ALL.format(surface="openai_chat", outcome="stop")] == 14


def test_a_trace_goes_through(start):
    server = start(SCRIPT)
    answer = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": SECRET}]}, headers={"traceparent": TRACEPARENT, "x-request-id": "mine-1"})
    assert answer.json["penstock"]["trace_id"] == TRACE and answer.headers["x-request-id"] == "mine-1"
    receipt = server.get("/v1/status").json["receipts"][0]
    line = log_requests(server)[0]
    for told in (receipt, line):
        assert (told["trace_id"], told["request_id"], told["id"]) == (TRACE, "mine-1", answer.json["id"])
    assert "trace_id" not in server.chat().json["penstock"]


@pytest.mark.parametrize("wrong", ["", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "ff-" + TRACEPARENT[3:], TRACEPARENT + "-x", TRACEPARENT.upper(), TRACEPARENT.replace("-", "_"), "x" * 55])
def test_what_is_no_trace_is_not_taken(start, wrong):
    answer = start(SCRIPT).post("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}, headers={"traceparent": wrong})
    assert answer.status == 200 and "trace_id" not in answer.json["penstock"]


def test_the_same_made_up_id_is_in_header_status_and_log(start):
    server = start(SCRIPT)
    for fields in ({}, {"stream": True}):
        answer = server.chat(**fields)
        assert server.get("/v1/status").json["receipts"][0]["request_id"] == answer.headers["x-request-id"]
    assert log_requests(server)[-1]["request_id"] == answer.headers["x-request-id"]


def test_status(start):
    server = start(SCRIPT)
    answer = server.chat(SECRET).json
    slow = server.open_stream("slow")
    server.wait_metric("sequences_running", 1)
    server.wait_metric("sequences_waiting", 0)  # counted by another thread
    status = server.get("/v1/status").json
    assert status["status"] == "running" and re.match(r"\d+\.\d+", status["version"]) and status["uptime_s"] >= 0
    assert status["models"][0]["id"] == "org/told" and status["models"][0]["executor"] == "scripted"
    assert status["requests"]["running"] == 1 and status["requests"]["finished"] == 1 and status["sequences"] == {"running": 1, "waiting": 0}
    assert set(status["mechanisms"]) == {"batching", "prefix_cache", "speculation", "preemption", "deadlines"} and status["mechanisms"]["batching"]["steps"] > 0
    assert status["memory"]["resident_bytes"] > 1 << 20 and "cgroup_limit_bytes" in status["memory"]
    [receipt] = status["receipts"]
    assert (receipt["id"], receipt["outcome"], receipt["surface"], receipt["completion_tokens"]) == (answer["id"], "stop", "openai_chat", 4)
    assert receipt["total_ms"] >= receipt["first_token_ms"] > 0
    slow.close()
    server.wait_metric("requests_running", 0)
    assert server.get("/v1/status").json["receipts"][0]["outcome"] == "disconnected"


def test_receipts_are_bounded_and_the_newest_come_first(start):
    server = start(SCRIPT)
    ids = [server.chat(max_tokens=1).json["id"] for _ in range(70)]
    assert [r["id"] for r in server.get("/v1/status").json["receipts"]] == ids[:-65:-1]


@pytest.mark.parametrize("kind", ["text", "json"])
def test_the_log_has_a_line_for_each_request_and_no_text_of_it(start, kind):
    server = start(SCRIPT, "--log-level", "debug", "--log-format", kind)
    server.chat(SECRET, user=SECRET, stop=[SECRET])
    server.chat("fail " + SECRET)
    server.chat(SECRET * 500)
    server.chat(SECRET, model=SECRET)
    server.post("/v1/completions", {"prompt": SECRET, SECRET: 1})
    server.post("/v1/completions", b'{"prompt": "' + SECRET.encode())
    told = json.dumps(server.get("/v1/status").json) + server.get("/metrics").body.decode()
    server.stop()
    log = server.log_path.read_text()
    assert SECRET not in log and SECRET not in told and "an answer of" not in log + told
    lines = [line for line in log.splitlines() if line.startswith("{")]
    if kind == "json":
        assert all({"time", "level"} <= set(json.loads(line)) for line in lines)
    assert bool(lines) == (kind == "json")
    outcomes = [line["outcome"] for line in log_requests(server)]
    assert sorted(outcomes) == ["failed", "refused", "refused", "stop", "stop"]
