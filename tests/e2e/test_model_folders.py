"""Odd model folders and names at the command line (ML)."""
import json
import math
import os
import shutil

import pytest
from model_folder import gemma3, llama, write_model
from scripted_server import ModelServer

IMAGE = [{"role": "user", "content": [{"type": "text", "text": "What is this?"},
                                      {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}]


def generate(penstock, folder, *arguments, check=True):
    return penstock("generate", folder, "hi", "--json", "--temperature", "0", "--max-tokens", "2", "--ignore-eos", *arguments, check=check)


def test_ML_03_a_vision_config_without_vision_weights_is_a_text_model(penstock, tmp_path):
    wrapper = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": gemma3(),
               "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 32}, "image_token_index": 255, "eos_token_id": 257}
    folder = write_model(tmp_path / "wrapped", wrapper, prefix="language_model.")
    assert len(json.loads(generate(penstock, folder).stdout)["tokens"]) == 2
    server = ModelServer(folder, tmp_path)
    try:
        assert server.chat("hi", max_tokens=2).status == 200
        refused = server.chat(messages=IMAGE, max_tokens=2)
        assert refused.status == 400 and "image" in refused.error["message"]
    finally:
        server.stop()


def test_a_quantization_that_the_shapes_contradict_names_the_tensor(penstock, tmp_path):
    said = llama(quantization={"group_size": 32, "bits": 4})
    assert generate(penstock, write_model(tmp_path / "right", said)).returncode == 0
    (tmp_path / "right/config.json").write_text(json.dumps({**said, "quantization": {"group_size": 32, "bits": 8}}))
    out = generate(penstock, str(tmp_path / "right"), check=False)
    assert out.returncode == 1 and "8 bits, group 32, as config.json says for model." in out.stderr


def test_a_norm_of_integers_is_refused_with_its_name(penstock, tmp_path):
    def integers(tensors):
        return [{**t, "dtype": "U32"} if t["name"] == "model.norm.weight" else t for t in tensors]

    out = generate(penstock, write_model(tmp_path / "odd", llama(), change=integers), check=False)
    assert out.returncode == 1 and "F32, F16 or BF16 for model.norm.weight; got U32" in out.stderr


def test_ML_25_a_name_stands_for_one_model(penstock, tmp_path):
    folder = write_model(tmp_path / "tiny", llama())
    script = tmp_path / "script.json"
    for names in (["scripted"], ["a", "b", "a"], [""]):
        script.write_text(json.dumps({"names": names, "replies": [{"pieces": ["x"]}]}))
        out = penstock("serve", "--engine", f"scripted:{script}", "--port", "0", check=False)
        assert out.returncode == 2 and "names" in out.stderr, names
    script.write_text(json.dumps({"replies": [{"pieces": ["x"]}]}))
    for both in ([folder, folder], [folder, "--engine", f"scripted:{script}"]):
        out = penstock("serve", *both, "--port", "0", check=False)
        assert out.returncode == 2 and out.stderr != "" and "listening" not in out.stdout


def test_ML_25_a_served_name_equal_to_the_models_own_is_one_name(tmp_path):
    folder = write_model(tmp_path / "tiny", llama())
    server = ModelServer(folder, tmp_path, ["--served-model-name", "tiny"])
    try:
        assert [model["id"] for model in server.get("/v1/models").json["data"]] == ["tiny"]
        for name in ("tiny", folder):
            assert server.chat("hi", model=name, max_tokens=1).status == 200
    finally:
        server.stop()


def edit(folder, file="config.json", **changes):
    path = os.path.join(folder, file)
    with open(path) as old:
        value = {**json.load(old), **changes}
    with open(path, "w") as new:
        json.dump(value, new)


def refusal(penstock, folder):
    out = generate(penstock, folder, check=False)
    assert out.returncode == 1 and out.stdout == ""
    return out.stderr


@pytest.fixture
def serve(tmp_path):
    servers = []

    def start(folder, *arguments):
        servers.append(ModelServer(folder, tmp_path, arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def forced(server, token, **fields):
    """The answer of a model of zeros whose bias wants `token` always."""
    answer = server.chat("hi", temperature=0, max_tokens=3, logit_bias={str(token): 100}, logprobs=True, **fields)
    assert answer.status == 200, answer.body
    choice = answer.json["choices"][0]
    return choice["message"]["content"], choice["finish_reason"], answer.json["usage"]["completion_tokens"]


def test_ML_02_the_config_decides_not_the_path(penstock, tmp_path):
    folder = write_model(tmp_path / "vl-gemma4-qat", llama())
    assert json.loads(penstock("show", folder, "--json").stdout)["family"] == "llama"
    assert len(json.loads(generate(penstock, folder).stdout)["tokens"]) == 2


def test_ML_04_overrides_named_with_the_wrappers_prefix(penstock, tmp_path):
    mixed = {"group_size": 32, "bits": 4, "model.layers.0.mlp.down_proj": {"group_size": 32, "bits": 8}, "model.layers.0.mlp.up_proj": False}
    folder = write_model(tmp_path / "mixed", gemma3(quantization=mixed), prefix="language_model.")
    prefixed = {k if k in ("group_size", "bits") else "language_model." + k: v for k, v in mixed.items()}
    edit(folder, quantization=prefixed)
    assert len(json.loads(generate(penstock, folder).stdout)["tokens"]) == 2
    edit(folder, quantization={"group_size": 32, "bits": 4})
    assert "down_proj" in refusal(penstock, folder)


def test_ML_05_a_matrix_without_scales_is_not_quantised(penstock, tmp_path):
    """config.json calls every matrix 4-bit; one of them is stored as floats."""
    mixed = {"group_size": 32, "bits": 4, "model.layers.0.self_attn.q_proj": False}
    folder = write_model(tmp_path / "mixed", llama(quantization=mixed))
    edit(folder, quantization={"group_size": 32, "bits": 4})
    assert len(json.loads(generate(penstock, folder).stdout)["tokens"]) == 2


def test_ML_10_ids_and_sizes_come_from_the_right_level(tmp_path, serve):
    wrapper = {"model_type": "gemma3", "vocab_size": 9, "hidden_size": 7, "text_config": gemma3()}
    server = serve(write_model(tmp_path / "wrapped", wrapper, prefix="language_model."))
    assert forced(server, 257) == ("", "stop", 0), "the inner eos_token_id"
    assert forced(server, 65) == ("AAA", "length", 3)


def test_ML_11_a_missing_shard_is_named(penstock, tmp_path):
    folder = write_model(tmp_path / "shards", llama())
    os.rename(folder + "/model.safetensors", folder + "/model-00001-of-00002.safetensors")
    assert "2 shards" in refusal(penstock, folder)
    with open(folder + "/model.safetensors.index.json", "w") as index:
        json.dump({"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors", "lm_head.weight": "model-00002-of-00002.safetensors"}}, index)
    assert "model-00002-of-00002.safetensors is missing" in refusal(penstock, folder)


def test_ML_13_either_dtype_key(penstock, tmp_path):
    for key, value in (("dtype", "float32"), ("torch_dtype", "bfloat16"), ("dtype", 5)):
        folder = write_model(tmp_path / "typed", llama())
        edit(folder, **{"torch_dtype": None, key: value})
        assert len(json.loads(generate(penstock, folder).stdout)["tokens"]) == 2


def test_ML_14_an_unknown_model_type_ends_with_the_near_names(penstock, tmp_path):
    folder = write_model(tmp_path / "unknown", llama())
    edit(folder, model_type="qwen9")
    assert "qwen9" in refusal(penstock, folder) and "qwen2" in refusal(penstock, folder)
    out = penstock("serve", folder, "--port", "0", check=False)
    assert out.returncode == 1 and "qwen9" in out.stderr and "listening" not in out.stdout


def test_ML_15_code_and_paths_that_leave_the_folder_are_refused(penstock, tmp_path):
    folder = write_model(tmp_path / "code", llama())
    edit(folder, model_file="../evil.py")
    assert "model_file" in refusal(penstock, folder)
    folder = write_model(tmp_path / "code", llama())
    edit(folder, model_type="own", auto_map={"AutoModelForCausalLM": "evil.Model"})
    assert "own" in refusal(penstock, folder)
    # Beside a family that is built in, auto_map only names code for other programs.
    (tmp_path / "code/evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    edit(folder, model_type="llama")
    assert generate(penstock, folder).returncode == 0 and not (tmp_path / "ran").exists()
    shutil.move(folder + "/model.safetensors", tmp_path / "outside.safetensors")
    with open(folder + "/model.safetensors.index.json", "w") as index:
        json.dump({"weight_map": {"model.norm.weight": "../outside.safetensors"}}, index)
    assert "../outside.safetensors" in refusal(penstock, folder)


def test_ML_17_the_model_is_loaded_once(tmp_path, serve):
    server = serve(write_model(tmp_path / "tiny", llama()))
    assert server.metric("model_loads_total") == 1
    for _ in range(3):
        assert server.chat("hi", max_tokens=1).status == 200
    assert server.metric("model_loads_total") == 1


def test_ML_22_json_as_python_writes_it(penstock, tmp_path):
    folder = write_model(tmp_path / "python", llama())
    path = tmp_path / "python/config.json"
    plain = path.read_text()
    path.write_text("\ufeff" + plain[:-1] + ', "my_limit": Infinity, "my_other": NaN}')
    assert len(json.loads(generate(penstock, folder).stdout)["tokens"]) == 2
    for wrong in (", }", "/* comment */ }"):
        path.write_text(plain[:-1] + wrong)
        out = generate(penstock, folder, check=False)
        assert out.returncode in (1, 2) and "config.json" in out.stderr


def test_ML_23_a_folder_named_like_a_repository(penstock, tmp_path, monkeypatch):
    write_model(tmp_path / "org/name", llama())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("org/name", "org/name/", "./org/name"):
        assert len(json.loads(generate(penstock, name).stdout)["tokens"]) == 2, name
    out = penstock("show", "~/org/name/", "--json", environment={"HOME": str(tmp_path)})
    assert json.loads(out.stdout)["family"] == "llama"


@pytest.mark.parametrize("method", ["gptq", "awq", "compressed-tensors"])
def test_QT_12_weights_of_other_quantisers_are_refused_by_name(penstock, tmp_path, method):
    folder = write_model(tmp_path / "foreign", llama())
    edit(folder, quantization_config={"quant_method": method, "bits": 4, "group_size": 128})
    assert f"{method}, which is not supported" in refusal(penstock, folder)


def test_QT_12_packed_weights_that_no_config_explains(penstock, tmp_path):
    def pack(tensors):
        return [{**t, "name": t["name"].replace("weight", "qweight"), "dtype": "U32"} if "q_proj" in t["name"] else t for t in tensors]

    assert "q_proj" in refusal(penstock, write_model(tmp_path / "foreign", llama(), change=pack))


def test_TK_08_an_ordinary_token_does_not_end_the_answer(tmp_path, serve):
    server = serve(write_model(tmp_path / "quote", llama(eos_token_id=[34, 257])))
    assert forced(server, 34) == ('"""', "length", 3)
    assert forced(server, 257) == ("", "stop", 0)
    assert "ordinary text" in server.log_path.read_text()


def test_TK_11_ids_that_pad_the_head_are_never_drawn(penstock, tmp_path, serve):
    """The head has 260 rows, the tokenizer 258 tokens."""
    folder = write_model(tmp_path / "padded", llama())
    server = serve(folder)
    assert server.chat("hi", logit_bias={"258": 100}).error["param"] == "logit_bias"
    for executor in ("cpu", "mlx") if "mlx" in penstock("doctor").stdout else ("cpu",):
        for seed in "123":
            out = penstock("generate", folder, "hi", "--json", "--temperature", "1", "--ignore-eos", "--seed", seed,
                           "--max-tokens", "200", "--executor", executor)
            assert max(json.loads(out.stdout)["tokens"]) < 258


def test_TK_13_log_probabilities_of_all_tokens_sum_to_one(tmp_path, serve):
    server = serve(write_model(tmp_path / "even", llama()))
    for temperature in (0, 0.3, 2):
        got = server.chat("hi", temperature=temperature, seed=1, max_tokens=4, ignore_eos=True, logprobs=True, top_logprobs=20)
        for entry in got.json["choices"][0]["logprobs"]["content"]:
            for one in [entry, *entry["top_logprobs"]]:
                assert abs(one["logprob"] + math.log(258)) < 1e-4, "258 equal tokens, natural logarithm, whatever the temperature"


def test_TK_15_a_folder_without_tokenizer_json_says_so(penstock, tmp_path):
    folder = write_model(tmp_path / "tekken", llama())
    os.rename(folder + "/tokenizer.json", folder + "/tekken.json")
    assert "tokenizer.json" in refusal(penstock, folder)


def test_TK_16_stop_ids_beyond_the_vocabulary_are_ignored(tmp_path, serve):
    folder = write_model(tmp_path / "beyond", llama(eos_token_id=None))
    (tmp_path / "beyond/generation_config.json").write_text('{"eos_token_id": [99999, 257]}')
    server = serve(folder)
    assert forced(server, 257) == ("", "stop", 0)
    assert "99999 is not in the vocabulary" in server.log_path.read_text()


def test_TK_20_prompt_tokens_count_template_and_bos(penstock, tmp_path, serve):
    folder = write_model(tmp_path / "bos", llama())
    edit(folder, "tokenizer_config.json", bos_token="<s>", add_bos_token=True)
    raw = json.loads(penstock("generate", folder, "hi", "--raw", "--json", "--max-tokens", "1").stdout)["prompt_tokens"]
    chat = json.loads(generate(penstock, folder).stdout)["prompt_tokens"]
    assert raw == [256, *b"hi"] and chat[-len("user: hi\n"):] == list(b"user: hi\n")
    server = serve(folder)
    assert server.post("/v1/completions", {"prompt": "hi", "max_tokens": 1}).json["usage"]["prompt_tokens"] == 3
    assert server.chat("hi", max_tokens=1).json["usage"]["prompt_tokens"] == len(chat)


def prompt_of(penstock, folder):
    return bytes(t for t in json.loads(generate(penstock, folder).stdout)["prompt_tokens"] if t < 256).decode()


def test_CT_05_CT_06_the_template_is_found_in_each_of_its_files(penstock, tmp_path):
    folder = write_model(tmp_path / "templates", llama())
    (tmp_path / "templates/chat_template.json").write_text('{"chat_template": "processor"}')
    (tmp_path / "templates/chat_template.jinja").write_text("jinja")
    assert prompt_of(penstock, folder) == "jinja"
    os.remove(folder + "/chat_template.jinja")
    assert prompt_of(penstock, folder) == "user: hi\n", "tokenizer_config.json"
    edit(folder, "tokenizer_config.json", chat_template=None)
    assert prompt_of(penstock, folder) == "processor"


def test_CT_21_a_template_that_is_a_program_is_refused(penstock, tmp_path):
    folder = write_model(tmp_path / "program", llama())
    edit(folder, "tokenizer_config.json", chat_template=None, chat_template_type="deepseek_v32")
    assert "deepseek_v32" in refusal(penstock, folder)
