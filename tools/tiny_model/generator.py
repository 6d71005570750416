"""The counter-based generator that fills every tensor of a fixture, and a safetensors writer.

docs/dev/fixtures.md is the specification; the C++ tests implement the same one. Needs numpy only.
"""
import json
import struct

import numpy as np

FNV_OFFSET, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
GAMMA = np.uint64(0x9E3779B97F4A7C15)
WORD_BITS = {"U8": 8, "U32": 32}


def name_hash(name):
    """FNV-1a, 64 bit, over the UTF-8 bytes of the name."""
    value = FNV_OFFSET
    for byte in name.encode():
        value = ((value ^ byte) * FNV_PRIME) % 2**64
    return value


def stream(name, count):
    """The first `count` 64-bit values of the stream called `name`."""  # uint64 [count]
    with np.errstate(over="ignore"):
        z = np.uint64(name_hash(name)) + np.arange(1, count + 1, dtype=np.uint64) * GAMMA
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def to_bfloat16(values):
    """Rounds float32 to bfloat16, ties to even; returns the 16-bit patterns."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def fill(tensor):
    """The stored form of one entry of tensors.json: float32, float16, uint16 (bfloat16), uint32 or uint8 array."""
    rule, dtype, shape = tensor["fill"], tensor["dtype"], tensor["shape"]
    z = stream(tensor["name"], int(np.prod(shape)))
    if rule["kind"] == "uniform":
        unit = (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
        values = np.float32(rule["centre"]) + np.float32(rule["span"]) * unit
        stored = {"F32": lambda v: v, "F16": lambda v: v.astype(np.float16), "BF16": to_bfloat16}[dtype](values)
    elif rule["kind"] == "bits":
        stored = (z >> np.uint64(32)).astype(np.uint32) & np.uint32(rule["mask"])
    elif rule["kind"] == "bytes":
        stored = (np.uint64(rule["first"]) + (z >> np.uint64(32)) % np.uint64(rule["count"])).astype(np.uint8)
    else:
        raise ValueError(f"unknown fill kind {rule['kind']} of {tensor['name']}")
    return stored.reshape(shape)


def to_float32(stored, dtype):
    """Widens a stored float tensor without rounding; integer tensors pass through."""
    if dtype == "BF16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored if dtype in WORD_BITS else stored.astype(np.float32)


def write_safetensors(path, tensors):
    """Writes {name: (dtype, array of the stored form)}."""
    header, offset = {"__metadata__": {"format": "mlx"}}, 0
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, array in tensors.values():
            out.write(np.ascontiguousarray(array).tobytes())


def compact(index):
    """JSON with one list item per line for the long lists."""
    lines = []
    for key, value in index.items():
        if key in ("variants", "rows", "prompts", "texts", "pairs"):
            items = ",\n  ".join(json.dumps(item) for item in value)
            lines.append(f' "{key}": [\n  {items}\n ]')
        else:
            lines.append(f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"
