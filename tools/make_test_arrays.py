#!/usr/bin/env python3
"""Makes the small arrays in tests/nn/data with NumPy and safetensors themselves, as oracles for our readers.

The fuzzers' seeds in tests/fuzz/corpus are small ones of the same kind; the files in tests/regressions are wrong in
ways that a parser, or the JSON library under ours, is easily wrong about.

Needs numpy, torch and safetensors. Run from the root of the repository; the output does not change from run to run.
"""

import pathlib
import shutil
import struct

import numpy as np
import torch
from numpy.lib import format as npy_format
from safetensors.torch import save_file

OUT = pathlib.Path("tests/nn/data")
SEEDS = pathlib.Path("tests/fuzz/corpus")
HOSTILE = pathlib.Path("tests/regressions")


def write_npy(name, array, version=None, allow_pickle=False):
    with open(OUT / f"{name}.npy", "wb") as file:
        npy_format.write_array(file, array, version=version, allow_pickle=allow_pickle)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    counting = np.arange(6).reshape(2, 3)
    for kind in ["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "b1"]:
        write_npy(kind, counting.astype(np.dtype(kind).newbyteorder("<")))

    two = np.array([1, 2], dtype="<f4")
    write_npy("version2", two, version=(2, 0))
    write_npy("version3", two, version=(3, 0))
    write_npy("scalar", np.array(7, dtype="<f4"))
    write_npy("empty", np.zeros((0, 4), dtype="<f4"))
    write_npy("cube", np.arange(24, dtype="<f4").reshape(2, 3, 4))

    special = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01], dtype="<u2")
    write_npy("special_f2", special.view("<f2"))
    write_npy("special_f4", special.view("<f2").astype("<f4"))

    write_npy("big_endian", two.astype(">f4"))
    write_npy("fortran", np.asfortranarray(counting.astype("<f4")))
    write_npy("object", np.array([None, 1], dtype=object), allow_pickle=True)
    write_npy("structured", np.zeros(2, dtype=[("x", "<f4"), ("y", "<i4")]))
    write_npy("complex", np.zeros(2, dtype="<c8"))
    write_npy("text", np.array(["ab", "c"]))

    names = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
             "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
             "bool": torch.bool}
    tensors = {name: torch.arange(6).reshape(2, 3).to(kind) for name, kind in names.items()}
    tensors["scalar"] = torch.tensor(7.0)
    tensors["empty"] = torch.zeros(0, 7)
    save_file(tensors, OUT / "types.safetensors", metadata={"made by": "tools/make_test_arrays.py"})
    write_seeds()
    write_hostile_safetensors()
    write_hostile_npy()


def write_seeds():
    for folder in ["npy", "safetensors"]:
        (SEEDS / folder).mkdir(parents=True, exist_ok=True)
    for name in ["b1", "cube", "f2", "f8", "fortran", "scalar", "structured", "version2", "version3"]:
        shutil.copy(OUT / f"{name}.npy", SEEDS / "npy")

    shutil.copy(OUT / "types.safetensors", SEEDS / "safetensors")
    layers = {"0.weight": torch.ones(2, 3), "0.bias": torch.ones(2), "2.weight": torch.ones(1, 2)}
    save_file(layers, SEEDS / "safetensors/network.safetensors",
              metadata={"activation": "gelu", "output_activation": "softmax"})
    half = {f"net.{name}": tensor.half() for name, tensor in layers.items()}
    save_file(half, SEEDS / "safetensors/half.safetensors")
    (SEEDS / "safetensors/empty.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")


def write_hostile_safetensors():
    folder = HOSTILE / "safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    tensor = b'{"dtype":"F32","shape":%s,"data_offsets":[%d,%d]}'
    one = tensor % (b"[1,1]", 0, 4)
    headers = {
        "byte_order_mark": b"\xef\xbb\xbf{}",
        "zero_byte": b"{}\0{",
        "duplicate_tensor": b'{"0.weight":' + one + b',"0.weight":' + one + b"}",
        "duplicate_by_escape": b'{"0.weight":' + one + b',"\\u0030.weight":' + one + b"}",
        "deep_nesting": b'{"0.weight":' + b"[" * 5000,
        "deep_objects": b'{"a":' * 1000,
        "overflowing_shape": b'{"0.weight":' + tensor % (b"[4294967296,4294967296]", 0, 0) + b"}",
        "overflow_beside_zero": b'{"0.weight":' + tensor % (b"[0,4294967296,4294967296]", 0, 0) + b"}",
        "offsets_at_the_limit": b'{"0.weight":' + tensor % (b"[1,1]", 2**64 - 5, 2**64 - 1) + b"}",
        "overlap": b'{"0.weight":' + one + b',"0.bias":' + tensor % (b"[1]", 0, 4) + b"}",
        "hole": b'{"0.weight":' + tensor % (b"[1,0]", 0, 0) + b',"0.bias":' + tensor % (b"[0]", 4, 4) + b"}",
        "empty_inside": b'{"0.weight":' + one + b',"0.bias":' + tensor % (b"[0]", 2, 2) + b"}",
        "half_a_surrogate": b'{"\\ud800":' + one + b"}",
        "not_utf_8": b'{"\xc3(":' + one + b"}",
        "number_overflow": b'{"0.weight":{"shape":[1e999]}}',
    }
    for name, header in headers.items():
        (folder / f"{name}.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    (folder / "absurd_length.safetensors").write_bytes(b"\xff" * 8 + b"{}")


def write_hostile_npy():
    folder = HOSTILE / "npy"
    folder.mkdir(parents=True, exist_ok=True)
    entries = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }"
    dicts = {
        "overflowing_shape": entries % ("<f4", "False", "(4294967296, 4294967296)"),
        "overflow_beside_zero": entries % ("<f4", "False", "(0, 4294967296, 4294967296)"),
        "number_overflow": entries % ("<f4", "False", "(18446744073709551616,)"),
        "negative_dimension": entries % ("<f4", "False", "(-1, 1)"),
        "no_tuple": entries % ("<f4", "False", "(1)"),
        "open_shape": "{'shape': (1, ",
        "open_string": "{'descr': '<f4",
        "empty_descr": entries % ("", "False", "(1,)"),
        "order_only": entries % ("<", "False", "(1,)"),
        "fortran": entries % ("<f4", "True", "(1, 1)"),
        "object": entries % ("|O", "False", "(1,)"),
    }
    for name, text in dicts.items():
        preamble = b"\x93NUMPY\1\0" + struct.pack("<H", len(text))
        (folder / f"{name}.npy").write_bytes(preamble + text.encode() + bytes(4))
    (folder / "absurd_length.npy").write_bytes(b"\x93NUMPY\2\0" + b"\xff" * 4 + b"{}")
    (folder / "magic_only.npy").write_bytes(b"\x93NUMPY")


if __name__ == "__main__":
    main()
