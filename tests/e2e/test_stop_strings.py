"""Stop strings (SP): never shown, not even in part, and the same streamed or not."""
import threading

from scripted_server import Stream


def test_SP_01_stop_on_every_route(start):
    server = start([{"pieces": ["one ", "STOP", " two"]}])
    assert server.both(stop="STOP")[:2] == ("one ", "stop")
    answer = server.post("/v1/completions", {"prompt": "x", "stop": ["STOP"]})
    assert answer.text == "one " and answer.json["choices"][0]["finish_reason"] == "stop"
    chunks = Stream(server.post("/v1/completions", {"prompt": "x", "stop": "STOP", "stream": True}).body).chunks
    assert "".join(c["choices"][0]["text"] for c in chunks) == "one " and chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_SP_02_and_SP_12_stop_over_several_tokens(start):
    server = start([{"pieces": ["ab", "E", "N", "D", "zz"]}])
    assert server.both(stop="END") == ("ab", "stop", 4)
    stream = server.stream(stop="END")
    assert [d["content"] for d in stream.deltas() if d.get("content")] == ["ab"]


def test_SP_05_unicode_stop_split_inside_a_character(start):
    split = [{"bytes": list("好世".encode()[:4])}, {"bytes": list("好世".encode()[4:]) + list("界".encode()[:1])},
             {"bytes": list("界".encode()[1:])}, "rest"]
    server = start([{"pieces": split}])
    text, reason, _ = server.both(stop="世界")
    assert text == "好" and reason == "stop" and "\ufffd" not in text


def test_SP_11_requests_have_their_own_stops(start):
    server = start([{"pieces": ["a", "x", "b", "y", "c"], "delays_ms": 20}])
    texts = {}

    def ask(stop):
        texts[stop] = server.chat(stop=stop).text

    threads = [threading.Thread(target=ask, args=(stop,)) for stop in "xy"]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert texts == {"x": "a", "y": "axb"}


def test_SP_13_overlapping_stop(start):
    assert start([{"pieces": ["a", "a", "a", "b", "c"]}]).both(stop="aab")[0] == "a"


def test_SP_14_stop_in_the_first_token(start):
    assert start([{"pieces": ["\n", "x"]}]).both(stop="\n") == ("", "stop", 1)


def test_a_stop_ends_the_generation_itself(start):
    server = start([{"pieces": ["a", "END", "b"], "delays_ms": [0, 0, 60000]}])
    assert server.both(stop="END")[:2] == ("a", "stop")
    assert server.metric("sequences_cancelled_total") == 2
    assert server.metric("requests_cancelled_total") == 0, "the request itself finished"
