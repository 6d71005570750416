"""Cancellation, disconnects and shutdown (CX)."""
import re
import signal
import socket
import struct
import threading
import time

import pytest
from scripted_server import receive_until


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def leave(connection, how):
    if how == "reset":
        reset(connection)
    elif how == "half-close":
        connection.shutdown(socket.SHUT_WR)
    else:
        connection.close()


@pytest.mark.parametrize("how", ["reset", "half-close", "close"])
def test_CX_01_CX_02_a_client_that_leaves_ends_its_generation(start, how):
    server = start([{"pieces": ["word "], "repeat": 100000, "delays_ms": 10}])
    connection = server.open_stream()
    receive_until(connection, b"word")
    assert server.metric("requests_running") == 1
    leave(connection, how)
    server.wait_metric("requests_running", 0)
    server.wait_metric("sequences_running", 0)
    assert server.metric("requests_cancelled_total") == 1
    assert server.metric("requests_cancelled_via_disconnect_total") == 1


@pytest.mark.parametrize("how", ["reset", "half-close", "close"])
def test_CX_02_also_before_the_first_token_and_without_a_stream(start, how):
    server = start([{"pieces": ["a"], "delays_ms": 60000}])
    for fields in ({}, {"stream": False}):
        connection = server.open_stream(**fields)
        server.wait_metric("sequences_running", 1)
        leave(connection, how)
        server.wait_metric("requests_running", 0)
    assert server.metric("requests_cancelled_total") == 2


def test_CX_05_the_server_lives_on_after_many_disconnects(start):
    server = start([{"pieces": ["word "], "repeat": 50, "delays_ms": 1}])
    for i in range(30):
        connection = server.open_stream()
        if i % 2:
            receive_until(connection, b"word")
        reset(connection)
    server.wait_metric("requests_running", 0)
    assert server.chat().text == "word " * 50


def test_CX_06_a_queued_request_never_runs(start):
    server = start({"max_num_seqs": 1, "replies": [{"pieces": ["a", "b"], "delays_ms": [0, 60000]}]})
    first = server.open_stream()
    receive_until(first, b'"a"')
    steps = server.metric("prompt_tokens_total")
    second = server.open_stream()
    server.wait_metric("sequences_waiting", 1)
    reset(second)
    server.wait_metric("sequences_waiting", 0)
    server.wait_metric("requests_cancelled_total", 1)
    assert server.metric("requests_running") == 1 and server.metric("sequences_running") == 1
    assert steps == 0
    first.close()


def test_CX_09_counters_add_up(start):
    server = start([{"match": "slow", "pieces": ["a", "b"], "delays_ms": [0, 60000]}, {"pieces": ["x"]}])
    for _ in range(5):
        connection = server.open_stream("slow")
        receive_until(connection, b'"a"')
        reset(connection)
        assert server.chat().status == 200
        assert server.chat(model="nobody").status == 404
    server.wait_metric("requests_running", 0)
    assert server.metric("requests_cancelled_total") == 5
    assert server.metric("requests_cancelled_via_disconnect_total") == 5
    assert server.metric("requests_processed_total") == 5
    assert server.metric("requests_refused_total") == 5
    assert server.metric("requests_received_total") == 15


def test_CX_10_the_next_request_is_right(start):
    server = start({"max_num_seqs": 1, "replies": [
        {"match": "slow", "pieces": ["a", "b"], "delays_ms": [0, 60000]}, {"pieces": ["right"]}]})
    connection = server.open_stream("slow")
    receive_until(connection, b'"a"')
    reset(connection)
    assert server.both()[0] == "right"


def test_CX_13_a_cancel_leaves_the_rest_of_the_batch_alone(start):
    pieces = [f"{i} " for i in range(60)]
    server = start([{"pieces": pieces, "delays_ms": 10}])
    texts = [None] * 3

    def ask(i):
        texts[i] = server.chat().text

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(3)]
    leaver = server.open_stream(n=2)
    receive_until(leaver, b"3 ")
    [t.start() for t in threads]
    time.sleep(0.1)
    reset(leaver)
    [t.join() for t in threads]
    assert texts == ["".join(pieces)] * 3


def test_CX_11_sigterm_drains(start):
    server = start([{"pieces": ["a"] * 20, "delays_ms": 100}])
    connection = server.open_stream()
    data = receive_until(connection, b'"content":"a')
    server.signal()
    until = time.monotonic() + 60
    while server.get("/healthz").status != 503:
        assert time.monotonic() < until
    answer = server.chat()
    assert answer.status == 503 and answer.headers["retry-after"] and answer.error["code"] == "unavailable"
    assert server.get("/livez").status == 200
    data += receive_until(connection, b"[DONE]")
    assert "".join(re.findall(r'"content":"(a*)"', data.decode())) == "a" * 20, "what runs is finished"
    assert server.process.wait(60) == 0


def test_CX_11_the_drain_has_a_limit(start):
    server = start([{"pieces": ["a", "b"], "delays_ms": [0, 60000]}], "--drain-timeout-ms", "200")
    connection = server.open_stream()
    receive_until(connection, b'"a"')
    begin = time.monotonic()
    server.signal()
    data = receive_until(connection, b"error")
    assert b"unavailable" in data + connection.recv(65536)
    server.process.wait(60)
    assert time.monotonic() - begin >= 0.2


def test_CX_11_a_second_signal_exits(start):
    server = start([{"pieces": ["a", "b"], "delays_ms": [0, 60000]}])
    connection = server.open_stream()
    receive_until(connection, b'"a"')
    server.signal(signal.SIGTERM)
    while server.get("/healthz").status != 503:
        pass
    server.signal(signal.SIGTERM)
    assert server.process.wait(60) != 0
    connection.close()


def test_a_reader_that_stops_reading_is_dropped(start):
    """Its generation takes 40 s of its own; what the sockets hold is full long before."""
    server = start([{"pieces": ["word " * 20000], "repeat": 400, "delays_ms": 100}], "--write-timeout-ms", "300")
    connection = server.open_stream()
    server.wait_metric("requests_cancelled_via_disconnect_total", 1, seconds=120)
    server.wait_metric("requests_running", 0)
    connection.close()
