"""Odd model folders and names at the command line (ML)."""
import json

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
