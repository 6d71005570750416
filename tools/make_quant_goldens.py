#!/usr/bin/env python3
"""Writes the golden files of tests/unit/quant and tests/unit/tensor with the reference implementations.

Needs the Python packages mlx (0.32.4), gguf (0.19.0) and numpy. Every case is `<case>.weight` (and `.scales`, `.biases`,
`.global_scale`, or `.blocks` for GGUF) with the float32 values that the reference makes of it as `<case>.values`.
"""
import sys
from pathlib import Path

import gguf
import mlx.core as mx
import numpy as np

ROOT = Path(__file__).resolve().parent.parent / "tests/unit"
RNG = np.random.default_rng(20240607)
DTYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}


def reals(shape, dtype):
    return mx.array(RNG.normal(size=shape).astype(np.float32)).astype(dtype)


def affine_case(out, bits, group, dtype):
    rows, cols = 3, 128
    name = f"affine.{bits}.{group}.{dtype}"
    weight = mx.array(RNG.integers(0, 2**32, (rows, cols * bits // 32), dtype=np.uint32))
    scales, biases = (reals((rows, cols // group), DTYPES[dtype]) for _ in range(2))
    # The reference is float32 arithmetic on the stored scales; mx.dequantize computes in the type of the scales.
    values = mx.dequantize(weight, scales.astype(mx.float32), biases.astype(mx.float32), group_size=group, bits=bits)
    out |= {f"{name}.weight": weight, f"{name}.scales": scales, f"{name}.biases": biases, f"{name}.values": values}


def fp_case(out, mode, bits, group, global_scale=None):
    rows, cols = 3, 128
    name = f"{mode}.{bits}.{group}" + (".global" if global_scale else "")
    weight = RNG.integers(0, 2**32, (rows, cols * bits // 32), dtype=np.uint32)
    if bits == 8:  # no NaN codes: a NaN equals nothing
        codes = weight.view(np.uint8)
        codes[(codes & 0x7F) == 0x7F] = 0x7E
    scales = RNG.integers(100, 150, (rows, cols // group), dtype=np.uint8)
    if mode == "nvfp4":
        scales = RNG.integers(0, 126, (rows, cols // group), dtype=np.uint8)
    scale = None if global_scale is None else mx.array(global_scale, dtype=mx.float32)
    weight, scales = mx.array(weight), mx.array(scales)
    values = mx.dequantize(weight, scales, group_size=group, bits=bits, mode=mode, dtype=mx.float32, global_scale=scale)
    out |= {f"{name}.weight": weight, f"{name}.scales": scales, f"{name}.values": values}
    if scale is not None:
        out[f"{name}.global_scale"] = scale.reshape(1)


def scale_tables(out):
    """What every scale byte means: the value of a code 1.0 under it."""
    bytes_ = mx.array(np.arange(256, dtype=np.uint8).reshape(256, 1))
    for mode, group, name in (("mxfp4", 32, "e8m0"), ("nvfp4", 16, "e4m3")):
        ones = mx.array(np.full((256, group // 8), 0x22222222, dtype=np.uint32))
        values = mx.dequantize(ones, bytes_, group_size=group, bits=4, mode=mode, dtype=mx.float32)
        out[f"{name}.values"] = mx.contiguous(values[:, 0])


def quantize_cases(out):
    for dtype in DTYPES:
        for bits in (2, 3, 4, 5, 6, 8):
            group = {2: 32, 3: 128, 4: 64, 5: 32, 6: 64, 8: 128}[bits]
            name = f"quantize.{bits}.{group}.{dtype}"
            source = reals((1, 256), DTYPES[dtype])
            weight, scales, biases = mx.quantize(source, group_size=group, bits=bits)
            out |= {f"{name}.source": source, f"{name}.weight": weight, f"{name}.scales": scales, f"{name}.biases": biases}
    for mode, bits, group in (("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)):
        name = f"quantize.{mode}"
        source = reals((2, 256), mx.float32)
        weight, scales = mx.quantize(source, group_size=group, bits=bits, mode=mode)
        out |= {f"{name}.source": source, f"{name}.weight": weight, f"{name}.scales": scales}


def mlx_goldens():
    out = {}
    for bits in (2, 3, 4, 5, 6, 8):
        for i, group in enumerate((32, 64, 128)):
            affine_case(out, bits, group, ("bf16", "f16", "f32")[(i + bits) % 3])
    affine_case(out, 4, 64, "f32")
    affine_case(out, 4, 64, "f16")
    fp_case(out, "mxfp4", 4, 32)
    fp_case(out, "mxfp8", 8, 32)
    fp_case(out, "nvfp4", 4, 16)
    fp_case(out, "nvfp4", 4, 16, global_scale=0.37)
    scale_tables(out)
    mx.save_safetensors(str(ROOT / "quant/goldens/mlx.safetensors"), out, {"format": "mlx"})
    out = {}
    quantize_cases(out)
    mx.save_safetensors(str(ROOT / "quant/goldens/mlx_quantize.safetensors"), out)


# Where the f16 numbers of a block are: random bytes there would be infinities and NaN.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def random_blocks(kind, rows, blocks):
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][1]
    data = RNG.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    for at in HALVES[kind]:
        halves = RNG.normal(size=(rows, blocks)).astype(np.float16)
        data[:, :, at:at + 2] = halves.view(np.uint8).reshape(rows, blocks, 2)
    return data.reshape(rows, blocks * size)


def gguf_goldens():
    out = {}
    for kind in HALVES:
        data = random_blocks(kind, 2, 2)
        values = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
        name = kind[0].lower() + kind[1:]
        out |= {f"{name}.blocks": mx.array(data), f"{name}.values": mx.array(values)}
    mx.save_safetensors(str(ROOT / "quant/goldens/gguf.safetensors"), out)


def tiny_gguf():
    """One small file with every kind of metadata value and a few tensors, as the package's own writer lays it out."""
    writer = gguf.GGUFWriter(str(ROOT / "tensor/goldens/tiny.gguf"), "llama")
    writer.add_uint8("t.u8", 200)
    writer.add_int8("t.i8", -100)
    writer.add_uint16("t.u16", 60000)
    writer.add_int16("t.i16", -30000)
    writer.add_uint32("t.u32", 4000000000)
    writer.add_int32("t.i32", -2000000000)
    writer.add_uint64("t.u64", 2**40)
    writer.add_int64("t.i64", -2**40)
    writer.add_float32("t.f32", 0.25)
    writer.add_float64("t.f64", 0.1)
    writer.add_bool("t.bool", True)
    writer.add_string("t.text", "caf\u00e9")
    writer.add_array("t.texts", ["a", "", "bc"])
    writer.add_array("t.integers", [3, -4, 5])
    writer.add_array("t.numbers", [0.5, -1.5])
    writer.add_array("t.bools", [True, False])
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    writer.add_tensor("dense.weight", rows)
    writer.add_tensor("half.weight", (rows / 4).astype(np.float16))
    blocks = random_blocks("Q4_K", 2, 1)
    writer.add_tensor("blk.0.ffn_up.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.Q4_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    mlx_goldens()
    gguf_goldens()
    tiny_gguf()
    sys.exit(0)
