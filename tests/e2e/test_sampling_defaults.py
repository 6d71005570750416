"""Who says how tokens are drawn: the request, the settings, the model's generation_config.json, its alias, the built-in values."""
import json

from model_folder import llama, write_model
from scripted_server import ModelServer

STORY = "Tell me a story."


def tiny(tmp_path, **generation_config):
    """All weights are zero: every token is equally likely, so that only top_k 1 always draws the same ones."""
    folder = write_model(tmp_path / "tiny", llama())
    (tmp_path / "tiny/generation_config.json").write_text(json.dumps(generation_config))
    return folder


def drawn(penstock, model, *arguments, prompt=STORY, seed=1, **environment):
    out = penstock("generate", model, prompt, "--json", "--seed", str(seed), "--max-tokens", "12", *arguments, environment=environment)
    return json.loads(out.stdout)["tokens"]


def test_generate_flag_then_setting_then_generation_config(penstock, tmp_path):
    folder = tiny(tmp_path, top_k=1)
    sure = drawn(penstock, folder)
    assert len(set(sure)) == 1 and drawn(penstock, folder, seed=2) == sure
    free = drawn(penstock, folder, PENSTOCK_DEFAULT_TOP_K="0")
    assert len(set(free)) > 1 and drawn(penstock, folder, PENSTOCK_DEFAULT_TOP_K="0", seed=2) != free
    assert drawn(penstock, folder, "--top-k", "1", PENSTOCK_DEFAULT_TOP_K="0") == sure
    assert drawn(penstock, folder, "--top-k", "0") == free


def test_serve_request_then_flag_then_generation_config(tmp_path):
    folder = tiny(tmp_path, top_k=1)

    def answers(server, **fields):
        return {server.chat("hi", max_tokens=6, seed=seed, ignore_eos=True, **fields).text for seed in range(4)}

    server = ModelServer(folder, tmp_path)
    try:
        assert len(answers(server)) == 1 and len(answers(server, top_k=0)) == 4
    finally:
        server.stop()
    server = ModelServer(folder, tmp_path, ["--default-top-k", "0"])
    try:
        assert len(answers(server)) == 4 and len(answers(server, top_k=1)) == 1
    finally:
        server.stop()


def test_run_takes_them_too(penstock, tmp_path):
    folder = tiny(tmp_path, top_k=1)

    def answer(*arguments, **environment):
        return penstock("run", folder, "hi", "--max-tokens", "12", *arguments, environment=environment).stdout

    assert answer() == answer()
    assert answer(PENSTOCK_DEFAULT_TOP_K="0") != answer(PENSTOCK_DEFAULT_TOP_K="0")
    assert answer("--top-k", "1", PENSTOCK_DEFAULT_TOP_K="0") == answer()


def test_an_alias_recommends(penstock, smollm2, tmp_path):
    plain = drawn(penstock, smollm2)
    assert plain == drawn(penstock, smollm2, "--temperature", "0.2", "--top-p", "0.9")
    assert plain != drawn(penstock, smollm2, "--temperature", "1", "--top-p", "1")
    server = ModelServer(smollm2, tmp_path)
    try:
        fields = {"seed": 3, "max_tokens": 16}
        plain = server.chat(STORY, **fields).text
        assert plain == server.chat(STORY, temperature=0.2, top_p=0.9, **fields).text
        assert plain != server.chat(STORY, temperature=1, top_p=1, **fields).text
    finally:
        server.stop()


def test_show_says_where_each_comes_from(penstock, smollm2, tmp_path):
    def shown(model, **environment):
        return json.loads(penstock("show", model, "--json", environment=environment).stdout)["sampling"]

    alias = shown(smollm2, PENSTOCK_DEFAULT_TOP_P="0.5")
    assert alias["temperature"] == {"value": 0.2, "from": "alias smollm2"}
    assert alias["top_p"] == {"value": 0.5, "from": "settings default_*"}
    assert alias["top_k"] == {"value": 0, "from": "built in"}
    folder = tiny(tmp_path, temperature=0.6, do_sample=True)
    assert shown(folder)["temperature"] == {"value": 0.6, "from": "generation_config.json"}
    assert "default         temperature 0.6 (generation_config.json)" in penstock("show", folder).stdout
