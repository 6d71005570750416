"""Embeddings and rerank: tiny encoders of the fixtures against transformers, MiniLM against sentence-transformers, the OpenAI SDK."""
import base64
import json
import socket
import struct
import threading
import time
from pathlib import Path

import numpy
import pytest
from model_folder import llama, write_encoder, write_model
from scripted_server import model_servers

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/models/embeddings/all-minilm.json"
SMALL = ["--executor", "cpu", "--threads", "1", "--kv-memory-bytes", "8000000"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One model that generates, one that embeds, one that ranks; all are loaded."""
    folder = tmp_path_factory.mktemp("models")
    write_model(folder / "chat", llama())
    write_encoder(folder / "embed", "bert")
    write_encoder(folder / "rank", "bert-score")
    servers = model_servers(folder, SMALL)
    yield next(servers)("--model-dir", folder)
    next(servers, None)


def embed(server, text="a river", model="embed", **fields):
    return server.post("/v1/embeddings", {"model": model, "input": text, **fields})


def vectors(answer):
    assert answer.status == 200, answer.body
    data = answer.json["data"]
    assert [d["index"] for d in data] == list(range(len(data))) and {d["object"] for d in data} == {"embedding"}
    return numpy.array([d["embedding"] for d in data])


def test_forms_of_input(server):
    texts = vectors(embed(server, ["a river", "the cold sea", "a river"]))
    assert texts.shape == (3, 96) and numpy.allclose(numpy.linalg.norm(texts, axis=1), 1, atol=1e-6)
    assert (texts[0] == texts[2]).all() and abs(texts[0] - texts[1]).max() > 0.01
    assert (vectors(embed(server, "a river"))[0] == texts[0]).all()  # the same bits alone
    ids = [2, 64, 75, 3]  # [CLS] a river [SEP]
    assert (vectors(embed(server, ids))[0] == texts[0]).all()
    assert (vectors(embed(server, [ids, [5]]))[0] == texts[0]).all()
    answer = embed(server, ["a river", "the cold sea"])
    assert answer.json["object"] == "list" and answer.json["model"] == "embed"
    assert answer.json["usage"] == {"prompt_tokens": 9, "total_tokens": 9}


def test_base64_and_dimensions(server):
    whole = vectors(embed(server))[0]
    coded = embed(server, encoding_format="base64").json["data"][0]["embedding"]
    assert struct.unpack("<96f", base64.b64decode(coded)) == pytest.approx(whole, abs=1e-9)
    short = vectors(embed(server, dimensions=8))[0]
    assert short == pytest.approx(whole[:8] / numpy.linalg.norm(whole[:8]), abs=1e-6)
    refused = embed(server, dimensions=97)
    assert refused.status == 400 and refused.error["param"] == "dimensions" and "96" in refused.error["message"]


def test_long_texts_are_an_error_unless_they_may_be_cut(server):
    long = "river " * 400
    refused = embed(server, ["short", long])
    assert refused.status == 400 and refused.error["code"] == "context_length_exceeded"
    assert refused.error["param"] == "input[1]" and "320" in refused.error["message"] and "402" in refused.error["message"]
    cut = vectors(embed(server, long, truncate=True))[0]
    assert (cut == vectors(embed(server, "river " * 318))[0]).all()
    assert embed(server, [5] * 321).status == 400


def test_bad_fields(server):
    for body, param in (({}, "input"), ({"input": ""}, "input"), ({"input": ["x", ""]}, "input"), ({"input": [[120]]}, None),
                        ({"input": "x", "encoding_format": "binary"}, "encoding_format")):
        answer = server.post("/v1/embeddings", {"model": "embed", **body})
        assert answer.status == 400 and answer.error["type"] == "invalid_request_error" and answer.error["param"] == param, body
    assert embed(server, model="nobody").error["code"] == "model_not_found"
    assert embed(server, user="me", color="red").headers["x-penstock-ignored"] == "color"


def test_models_say_what_they_cannot_do(server):
    answer = embed(server, model="chat")
    assert answer.status == 501 and answer.error["code"] == "not_implemented" and answer.error["param"] == "model"
    assert "generates text" in answer.error["message"]
    assert embed(server, model="rank").status == 501
    for model in ("embed", "rank"):
        asked = server.post("/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "hi"}]})
        assert asked.status == 400 and asked.error["param"] == "model" and model in asked.error["message"]
        assert server.post("/v1/completions", {"model": model, "prompt": "hi"}).status == 400
    for model in ("chat", "embed"):
        ranked = rerank(server, model=model)
        assert ranked.status == 501 and ranked.error["code"] == "not_implemented"


def test_OA_15_models_are_listed_with_what_they_can_do(server):
    for model in ("chat", "embed", "rank"):
        server.post("/v1/models/load", {"model": model})
    models = {m["id"]: m["capabilities"] for m in server.get("/v1/models").json["data"]}
    none = {"chat_completion": False, "completion": False, "embeddings": False, "rerank": False}
    assert models == {"chat": {**none, "chat_completion": True, "completion": True}, "embed": {**none, "embeddings": True},
                      "rank": {**none, "rerank": True}}
    card = server.get("/v1/models/embed").json
    assert card["context_window"] == 320 and card["penstock"]["family"] == "bert" and card["penstock"]["executor"] == "cpu"


def rerank(server, model="rank", **fields):
    return server.post("/v1/rerank", {"model": model, "query": "q", "documents": ["a", "b"], **fields})


def test_rerank_gives_the_scores_of_transformers(server):
    pairs = json.loads((ROOT / "tests/models/bert-score/expected.json").read_text())["pairs"]
    documents = [p["document"] for p in pairs]
    answer = rerank(server, query=pairs[0]["query"], documents=documents)
    assert answer.status == 200, answer.body
    results = answer.json["results"]
    assert sorted(r["index"] for r in results) == list(range(len(pairs)))
    scores = [r["relevance_score"] for r in results]
    assert scores == sorted(scores, reverse=True)
    for result in results:
        assert result["relevance_score"] == pytest.approx(pairs[result["index"]]["score"], abs=2e-4)
        assert "document" not in result
    assert answer.json["usage"]["prompt_tokens"] == sum(len(p["ids"]) for p in pairs)
    turned = rerank(server, query=pairs[0]["query"], documents=documents[::-1], top_n=2, return_documents=True).json["results"]
    assert [r["document"]["text"] for r in turned] == [documents[r["index"]] for r in results[:2]]
    assert [r["relevance_score"] for r in turned] == scores[:2]
    mixed = rerank(server, query=pairs[0]["query"], documents=[{"text": d} for d in documents]).json["results"]
    assert [r["relevance_score"] for r in mixed] == scores


def test_rerank_refuses_long_documents_and_bad_fields(server):
    refused = rerank(server, documents=["a", "sea " * 400])
    assert refused.status == 400 and refused.error["param"] == "documents[1]" and "320" in refused.error["message"]
    assert rerank(server, documents=["a", "sea " * 400], truncate=True).status == 200
    for field, value in (("query", ""), ("documents", []), ("top_n", 0), ("return_documents", "yes")):
        assert rerank(server, **{field: value}).error["param"] == field


def test_the_openai_sdk(server):
    client = server.openai()
    plain = client.embeddings.create(model="embed", input="a river", encoding_format="float")
    default = client.embeddings.create(model="embed", input=["a river", "the sea"], dimensions=16)  # asks for base64 by itself
    assert len(plain.data[0].embedding) == 96 and len(default.data[1].embedding) == 16
    whole = client.embeddings.create(model="embed", input="a river").data[0].embedding
    assert whole == pytest.approx(plain.data[0].embedding, abs=1e-7)
    assert plain.usage.total_tokens == plain.usage.prompt_tokens == 4
    openai = pytest.importorskip("openai")
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        client.embeddings.create(model="embed", input="x", dimensions=1000)
    with pytest.raises(openai.InternalServerError) as refused:
        client.embeddings.create(model="chat", input="x")
    assert refused.value.status_code == 501


def test_concurrent_requests_share_steps_and_keep_their_bits(server):
    texts = [f"river {i % 7} " * (1 + i % 5) for i in range(40)]
    alone = [vectors(embed(server, t))[0] for t in texts]
    got = [None] * len(texts)

    def ask(i):
        got[i] = vectors(embed(server, texts[i]))[0]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((a == b).all() for a, b in zip(alone, got))


def test_a_client_that_goes_away_is_counted(server):
    before = server.metric("requests_cancelled_via_disconnect_total")
    body = json.dumps({"model": "embed", "input": ["river " * 310] * 2048}).encode()
    connection = socket.create_connection((server.host, server.port))
    connection.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                       % (len(body), body))
    until = time.monotonic() + 60
    while server.metric("requests_running") == 0:
        assert time.monotonic() < until
    connection.close()
    server.wait_metric("requests_cancelled_via_disconnect_total", before + 1)
    server.wait_metric("requests_running", 0)
    assert embed(server).status == 200


def test_embed_command(penstock, tmp_path):
    folder = write_encoder(tmp_path / "embed", "bert")
    small = ["--threads", "1"]
    out = json.loads(penstock("embed", folder, "a river", "the cold sea", *small).stdout)["embeddings"]
    assert numpy.array(out).shape == (2, 96)
    piped = json.loads(penstock("embed", folder, *small, input="a river\nthe cold sea\n").stdout)["embeddings"]
    assert piped == out
    short = json.loads(penstock("embed", folder, "a river", "--dimensions", "4", *small).stdout)["embeddings"][0]
    assert numpy.linalg.norm(short) == pytest.approx(1, abs=1e-6) and len(short) == 4
    assert penstock("embed", folder, "x", "--dimensions", "97", *small, check=False).returncode == 2
    long = penstock("embed", folder, "river " * 400, *small, check=False)
    assert long.returncode == 1 and "320" in long.stderr and "402" in long.stderr
    assert penstock("embed", folder, "river " * 400, "--truncate", *small).returncode == 0
    chat = write_model(tmp_path / "chat", llama())
    refused = penstock("embed", chat, "x", *small, check=False)
    assert refused.returncode == 1 and "generates text" in refused.stderr
    for command in (["generate", folder, "x"], ["logits", folder, "--tokens", "1"]):
        refused = penstock(*command, check=False)
        assert refused.returncode != 0 and "encodes" in refused.stderr, refused.stderr
    plan = penstock("plan", folder).stdout
    assert "whole text" in plan and "pool     mean" in plan


def cosine(a, b):
    return float(numpy.dot(a, b) / numpy.linalg.norm(a) / numpy.linalg.norm(b))


def vector_of(golden):
    return numpy.frombuffer(base64.b64decode(golden["vector"]), "<f4").astype(float)


@pytest.mark.parametrize("mode", [[], ["--exact"]], ids=["fast", "exact"])
def test_minilm_equals_sentence_transformers(penstock, tmp_path, mode):
    """Token ids as the tokenizers library makes them (a text has the bits of its ids), vectors within 1e-4 of cosine 1."""
    penstock("pull", "all-minilm", timeout=1800)
    goldens = json.loads(GOLDENS.read_text())
    texts = [t for t in goldens["texts"] if t["text"]]
    assert len(texts) > 50 and max(len(t["ids"]) for t in texts) == goldens["max_tokens"]
    servers = model_servers(tmp_path, ["--executor", "cpu", *mode])
    server = next(servers)("all-minilm")
    ours = vectors(embed(server, [t["text"] for t in texts], model="", truncate=True))
    of_ids = vectors(embed(server, [t["ids"] for t in texts], model=""))
    next(servers, None)
    for text, vector, same in zip(texts, ours, of_ids, strict=True):
        assert (vector == same).all(), f"other ids of {text['text']!r}"
        assert cosine(vector, vector_of(text)) > 1 - 1e-4, text["text"]
        if mode:
            assert abs(vector - vector_of(text)).max() < 1e-5, text["text"]
    empty = next(t for t in goldens["texts"] if not t["text"])
    alone = json.loads(penstock("embed", "all-minilm", "", *mode).stdout)["embeddings"][0]
    assert cosine(alone, vector_of(empty)) > 1 - 1e-4
