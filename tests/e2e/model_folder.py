"""A model folder of a few kilobytes, for tests of what the program makes of its files. The weights are zero."""
import json
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from tiny_model import recipes  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]

SIZES = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 16, "vocab_size": 260, "max_position_embeddings": 256, "torch_dtype": "float32"}
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "U8": 1}
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


def write_weights(path, tensors):
    header, size = {}, 0
    for tensor in tensors:
        end = size + BYTES[tensor["dtype"]]
        for n in tensor["shape"]:
            end = size + (end - size) * n
        header[tensor["name"]] = {"dtype": tensor["dtype"], "shape": tensor["shape"], "data_offsets": [size, end]}
        size = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(size))


def byte_level_tokenizer():
    """A token for each byte, id = byte, and two special ones."""
    letters, spare = {}, 0x100
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or byte >= 0xAE:
            letters[chr(byte)] = byte
        else:
            letters[chr(spare)] = byte
            spare += 1
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [{"id": i, "content": text, "special": True, "normalized": False, "single_word": False, "lstrip": False, "rstrip": False}
             for i, text in ((256, "<s>"), (257, "</s>"))]
    return {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": step, "post_processor": None, "decoder": step,
            "model": {"type": "BPE", "vocab": letters, "merges": []}}


def write_model(folder, config, prefix="", change=lambda tensors: tensors):
    """`prefix` goes before every tensor name; `change` may alter the list of tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    text_config = config.get("text_config", config)
    tensors = [{**t, "name": prefix + t["name"]} for t in recipes.tensor_list(text_config)]
    write_weights(folder / "model.safetensors", change(tensors))
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(byte_level_tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "chat_template": TEMPLATE}))
    return str(folder)


def llama(**changes):
    return {**recipes.LLAMA, **SIZES, "eos_token_id": 257, "bos_token_id": 256, **changes}


def gemma3(**changes):
    return {**recipes.GEMMA3, **SIZES, "eos_token_id": 257, "bos_token_id": 256, **changes}


def write_encoder(folder, name):
    """A fixture of tests/models with its own weights and a tokenizer."""
    from tiny_model import encoders

    subprocess.run([sys.executable, str(ROOT / "tools/make_tiny_model.py"), "weights", name, str(folder)], check=True)
    (folder / "tokenizer.json").write_text(json.dumps(encoders.wordpiece_tokenizer()))
    return str(folder)
