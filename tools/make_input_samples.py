#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the archives, tables and pictures in tests/io/data with NumPy and Pillow, and what these read from them
(expected.npz), as oracles for our readers; the fuzzers' seeds of the same kinds; hostile files in tests/regressions; and
tests/io/data/plain.onnx, a network that gives its input back, and pictures.onnx, which is the same and says in its metadata
how pictures become the input.

Needs numpy, Pillow 12 and onnx; run from the root of the repository. Pillow 13 takes the two passes of a resizing in another
order for some sizes, such as 62x8. The output does not change from run to run with the same versions of the packages.
"""

import io
import pathlib
import shutil
import struct
import zipfile
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image

OUT = pathlib.Path("tests/io/data")
SEEDS = pathlib.Path("tests/fuzz/corpus")
HOSTILE = pathlib.Path("tests/regressions")
WIDTH, HEIGHT = 31, 22
RESIZED = [(8, 6), (13, 40), (62, 44), (5, 22), (31, 7), (1, 1), (30, 21), (62, 8)]
MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
# x and y of the first pixel of each pass of an interlaced PNG, and the steps.
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def write(path, contents):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)


# ---- archives


def npz(arrays, save=np.savez):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


class Pipe(io.RawIOBase):
    """Where sizes cannot be filled in afterwards: they follow the data."""

    def __init__(self):
        self.contents = b""

    def writable(self):
        return True

    def write(self, part):
        self.contents += bytes(part)
        return len(part)


def streamed_npz(arrays):
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.save(member, array)
            archive.writestr(zipfile.ZipInfo(name + ".npy"), member.getvalue(), zipfile.ZIP_DEFLATED)
    return pipe.contents


def make_archives():
    arrays = {
        "x": np.arange(6, dtype=np.float32).reshape(2, 3),
        "tokens": np.int64([7, -1, 2**62 + 1]),
        "scalar": np.uint8(9),
        "a/b": np.float64([0.5]),
        "größe": np.int32([[1], [2]]),
    }
    write(OUT / "stored.npz", npz(arrays))
    write(OUT / "deflated.npz", npz(arrays, np.savez_compressed))
    write(OUT / "streamed.npz", streamed_npz(arrays))
    one = {"x": np.zeros((100, 40), np.float32)}
    write(SEEDS / "npz/stored.npz", npz({"x": arrays["x"], "n": arrays["tokens"]}))
    write(SEEDS / "npz/deflated.npz", npz(one, np.savez_compressed))
    write(SEEDS / "npz/streamed.npz", streamed_npz({"x": arrays["x"]}))

    good = npz({"x": arrays["x"]}, np.savez_compressed)
    entry = good.rindex(b"PK\x01\x02")
    hostile = {
        "cut_off": good[:-5],
        "cut_in_the_data": good[:60],
        "end_only": good[-22:],
        "method_99": good[:entry + 10] + struct.pack("<H", 99) + good[entry + 12:],
        "encrypted": good[:entry + 8] + struct.pack("<H", 1) + good[entry + 10:],
        "large_size": good[:entry + 24] + struct.pack("<I", 0xfffffffe) + good[entry + 28:],
        "large_offset": good[:entry + 42] + struct.pack("<I", 0xfffffff0) + good[entry + 46:],
        "zip64_without_field": good[:entry + 24] + struct.pack("<I", 0xffffffff) + good[entry + 28:],
        "many_members": good[:-12] + struct.pack("<H", 0xfffe) + good[-10:],
        "zeros": bytes(100),
    }
    for name, contents in hostile.items():
        write(HOSTILE / f"npz/{name}.npz", contents)


# ---- tables


def make_tables():
    seeds = {
        "header": b"a,b,c\n1,2,3\n4.5,-6e-3,nan\n",
        "quotes": b'"first ""one""","second"\r\n"1","2"\r\n',
        "semicolons": b"1;2\n3;4\n\n",
        "spaces": b"# made by hand\n 1  2\n 3  4 \n",
        "tabs": b"\xef\xbb\xbfx\ty\n1\t2",
        "integers": b"1\n-9223372036854775808\n18446744073709551615\n3.0\n",
        "booleans": b"true,False\n0,1\n",
    }
    for name, contents in seeds.items():
        write(SEEDS / f"csv/{name}.csv", contents)
    hostile = {
        "ragged": b"1,2\n3\n",
        "one_too_many": b"1,2\n3,4,5\n",
        "empty_cell": b"1,,2\n",
        "open_quote": b'1,"2\n3,4\n',
        "zero_bytes": b"1,\x00\n",
        "utf_16": "1,2\n".encode("utf-16"),
        "empty_lines": b"1" * 40 + b",1" * 500 + b"\n" * 5000 + b"1\n",
        "half_a_header": b"a,2\n1,2\n",
        "counted_header": b"0,1,2\n5,6,7\n",
        "huge_number": b"1e999999999\n",
        "comment_only": b"# nothing\n",
        "separators_only": b",,,,\n,,,,\n",
        "inf_without_end": b"0,-inf5,6,7\n",  # libstdc++ 12 reads beyond it, for long double
    }
    for name, contents in hostile.items():
        write(HOSTILE / f"csv/{name}.csv", contents)


# ---- pictures


def picture():
    """A picture with slopes, an edge and some noise."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    noise = np.random.default_rng(7).integers(0, 40, (HEIGHT, WIDTH, 3))
    red, green = x * 6, y * 9
    blue = np.where(x + y > 26, 200, 15)
    return np.clip(np.stack([red, green, blue], 2) + noise, 0, 255).astype(np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(header, data, between=b""):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *header)) + between +
            chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


def rows_of(array):
    """Rows of a PNG without a filter. `array` has bytes in its last dimension."""
    return b"".join(b"\0" + row.tobytes() for row in array)


def interlaced(array):
    height, width = array.shape[:2]
    data = b""
    for x, y, dx, dy in ADAM7:
        part = array[y::dy, x::dx]
        if part.size:
            data += rows_of(part)
    return png((width, height, 8, 2, 0, 0, 1), data)


def segment(marker, data):
    return bytes([0xff, marker]) + struct.pack(">H", len(data) + 2) + data


def jpeg_of_scans(bits):
    """A progressive JPEG of one grey block, with a scan for each of these bits of each coefficient, all of them zero."""
    zero_only = bytes([1] + [0] * 15 + [0])  # a Huffman table that has the code 0, of the symbol 0
    file = (b"\xff\xd8" + segment(0xdb, bytes([0] + [1] * 64)) + segment(0xc2, bytes([8, 0, 8, 0, 8, 1, 1, 0x11, 0])) +
            segment(0xc4, b"\x00" + zero_only) + segment(0xc4, b"\x10" + zero_only))
    scans = [(0, 0, 0)] + [(at, 0 if low == bits - 1 else low + 1, low) for at in range(1, 64)
                           for low in reversed(range(bits))]
    for at, high, low in scans:
        file += segment(0xda, bytes([1, 1, 0, at, at, high << 4 | low])) + b"\x7f"
    return file + b"\xff\xd9"


def saved(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def read(contents, mode):
    return np.asarray(Image.open(io.BytesIO(contents)).convert(mode))


def make_pictures():
    pixels = picture()
    rgb = Image.fromarray(pixels)
    grey = rgb.convert("L")
    alpha = np.uint8(np.mgrid[0:HEIGHT, 0:WIDTH][1] * 8)
    wide = np.random.default_rng(8).integers(0, 65536, (4, 5, 3)).astype(np.uint16)
    wide_grey = np.uint16([[0, 1, 256], [65535, 32768, 1000]])
    palette = rgb.quantize(16)
    transparent = np.uint8([[0, 1], [2, 1]])
    palette_chunks = (chunk(b"PLTE", bytes([255, 0, 0, 0, 255, 0, 0, 0, 255])) + chunk(b"tRNS", bytes([255, 128])))
    pictures = {
        "rgb.png": (saved(rgb, "PNG"), "RGB"),
        "rgba.png": (saved(Image.fromarray(np.dstack([pixels, alpha])), "PNG"), "RGBA"),
        "grey.png": (saved(grey, "PNG"), "L"),
        "grey_alpha.png": (saved(Image.merge("LA", [grey, Image.fromarray(alpha)]), "PNG"), "LA"),
        "palette.png": (saved(palette, "PNG"), "RGB"),
        "palette_alpha.png": (png((2, 2, 8, 3, 0, 0, 0), rows_of(transparent), palette_chunks), "RGBA"),
        "one_bit.png": (saved(rgb.convert("1"), "PNG"), "L"),
        "interlaced.png": (interlaced(pixels), "RGB"),
        "gamma.png": (png((WIDTH, HEIGHT, 8, 2, 0, 0, 0), rows_of(pixels), chunk(b"gAMA", struct.pack(">I", 100000))),
                      "RGB"),
        "rgb.jpg": (saved(rgb, "JPEG", quality=90), "RGB"),
        "fine.jpg": (saved(rgb, "JPEG", quality=95, subsampling=0), "RGB"),
        "grey.jpg": (saved(grey, "JPEG", quality=90), "L"),
        "progressive.jpg": (saved(rgb, "JPEG", quality=80, progressive=True), "RGB"),
    }
    expected = {}
    for name, (contents, mode) in pictures.items():
        write(OUT / name, contents)
        expected[name] = read(contents, mode)
    rgb16 = png((5, 4, 16, 2, 0, 0, 0), rows_of(wide.astype(">u2")))
    grey16 = png((3, 2, 16, 0, 0, 0, 0), rows_of(wide_grey.astype(">u2")[..., None]))
    grey2 = png((5, 1, 2, 0, 0, 0, 0), b"\0" + bytes([0b00011011, 0b11000000]))
    key = png((2, 1, 8, 0, 0, 0, 0), b"\0" + bytes([7, 9]), chunk(b"tRNS", struct.pack(">H", 9)))
    for name, contents, value in [("rgb16.png", rgb16, wide), ("grey16.png", grey16, wide_grey),
                                  ("grey2.png", grey2, np.uint8([[0, 85, 170, 255, 255]])),
                                  ("key.png", key, np.uint8([[[7, 255], [9, 0]]]))]:
        write(OUT / name, contents)
        expected[name] = value
    write(OUT / "cmyk.jpg", saved(rgb.convert("CMYK"), "JPEG"))

    for size in RESIZED:
        expected[f"{size[0]}x{size[1]}"] = np.asarray(rgb.resize(size, Image.BILINEAR))
    expected["grey_8x6"] = np.asarray(grey.resize((8, 6), Image.BILINEAR))
    expected["grey_of_rgb"] = np.asarray(grey)
    # Resize(16), CenterCrop(12), ToTensor, Normalize.
    small = rgb.resize((16 * WIDTH // HEIGHT, 16), Image.BILINEAR)
    left, top = round((small.width - 12) / 2), round((small.height - 12) / 2)
    cut = np.asarray(small.crop((left, top, left + 12, top + 12)))
    expected["normalized"] = ((cut.astype(np.float32) / np.float32(255) - MEAN) / STD).transpose(2, 0, 1)
    expected["rgb_floats"] = pixels.astype(np.float32).transpose(2, 0, 1) / np.float32(255)
    write(OUT / "expected.npz", npz(expected))

    tiny = rgb.resize((7, 5), Image.BILINEAR)
    write(SEEDS / "png/rgb.png", saved(tiny, "PNG"))
    write(SEEDS / "png/palette.png", saved(tiny.quantize(8), "PNG"))
    write(SEEDS / "png/interlaced.png", interlaced(np.asarray(tiny)))
    write(SEEDS / "png/grey16.png", grey16)
    write(SEEDS / "png/key.png", key)
    write(SEEDS / "jpeg/rgb.jpg", saved(tiny, "JPEG"))
    write(SEEDS / "jpeg/grey.jpg", saved(tiny.convert("L"), "JPEG"))
    write(SEEDS / "jpeg/progressive.jpg", saved(tiny, "JPEG", progressive=True))
    write(SEEDS / "jpeg/scans.jpg", jpeg_of_scans(1))

    good, photo = saved(tiny, "PNG"), saved(tiny, "JPEG")
    row = b"\0" + bytes(21)
    hostile = {
        "png/huge.png": png((0x7fffffff, 0x7fffffff, 8, 2, 0, 0, 0), row),
        "png/wide.png": png((65535, 65535, 16, 6, 0, 0, 1), row),
        "png/no_pixels.png": png((0, 5, 8, 2, 0, 0, 0), row),
        "png/few_rows.png": png((7, 5, 8, 2, 0, 0, 0), row * 2),
        "png/bad_filter.png": png((7, 1, 8, 2, 0, 0, 0), b"\x09" + bytes(21)),
        "png/no_palette.png": png((7, 1, 8, 3, 0, 0, 0), bytes(8)),
        "png/cut_off.png": good[:-30],
        "png/no_end.png": good[:-12],
        "png/bad_crc.png": good[:20] + bytes([good[20] ^ 1]) + good[21:],
        "png/start_only.png": good[:8],
        "png/text_bomb.png": png((7, 1, 8, 2, 0, 0, 0), row,
                                 chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(20_000_000), 9))),
        "png/absurd_text.png": good[:33] + struct.pack(">I", 0x4e470d0a) + b"zTXt" + good[33:],
        "jpeg/cut_off.jpg": photo[:-40],
        "jpeg/start_only.jpg": photo[:4],
        "jpeg/no_scan.jpg": photo[:photo.index(b"\xff\xda")] + b"\xff\xd9",
        "jpeg/huge.jpg": photo.replace(struct.pack(">HH", 5, 7), struct.pack(">HH", 65500, 65500), 1),
        "jpeg/cmyk.jpg": saved(tiny.convert("CMYK"), "JPEG"),
    }
    hostile["jpeg/many_scans.jpg"] = jpeg_of_scans(2)
    for name, contents in hostile.items():
        write(HOSTILE / name, contents)


def make_network():
    info = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Identity", ["image"], ["pixels"])], "pictures",
                              [info("image", TensorProto.FLOAT, ["batch", 3, 12, 12])],
                              [info("pixels", TensorProto.FLOAT, ["batch", 3, 12, 12])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    write(OUT / "plain.onnx", model.SerializeToString(deterministic=True))
    helper.set_model_props(model, {"sluice.image.size": "16", "sluice.image.crop": "12",
                                   "sluice.image.mean": "0.485,0.456,0.406", "sluice.image.std": "0.229,0.224,0.225",
                                   "author": "a test"})
    write(OUT / "pictures.onnx", model.SerializeToString(deterministic=True))


def main():
    for folder in [OUT] + [root / kind for root in (SEEDS, HOSTILE) for kind in ("npz", "csv", "png", "jpeg")]:
        if folder.exists():
            shutil.rmtree(folder)
    make_archives()
    make_tables()
    make_pictures()
    make_network()


if __name__ == "__main__":
    main()
