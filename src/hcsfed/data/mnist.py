"""MNIST and Fashion-MNIST: 60,000 + 10,000 grey images of 28×28 in ten classes, in the idx format."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.data.files import Published, read
from hcsfed.data.source import Source
from hcsfed.errors import DataError

_PARTS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def _published(
    folders: tuple[str, ...], mirrors: tuple[str, ...], archives: str, contents: str, sizes: tuple[int, ...]
) -> tuple[Published, ...]:
    names = tuple(f"{part}.gz" for part in _PARTS)
    return tuple(
        Published(
            folders,
            name,
            urls=tuple(mirror + name for mirror in mirrors),
            digest=f"md5:{a}",
            contents={part: f"md5:{c}"},
            size=size,
            together=names,
        )
        for name, part, a, c, size in zip(names, _PARTS, archives.split(), contents.split(), sizes, strict=True)
    )


MNIST = _published(
    ("mnist", "MNIST", "MNIST/raw"),
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ),
    "f68b3c2dcbeaaa9fbdd348bbdeb94873 d53e105ee54ea40749a09fcbcd1e9432 "
    "9fb629c4189551a2d022fa330f9573f3 ec29112dd5afa0611ce80d1b7f02629c",
    "6bbc9ace898e44ae57da46a324031adb a25bea736e30d166cdddb491f175f624 "
    "2646ac647ad5339dbf082846283269ea 27ae3e4e09519cfbb04c329615203637",
    (9_912_422, 28_881, 1_648_877, 4_542),
)

FASHION_MNIST = _published(
    ("fashion-mnist", "FashionMNIST", "FashionMNIST/raw"),
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    ),
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d 25c81989df183df01b3e8a0aad5dffbe "
    "bef4ecab320f06d8554ea6380940ec79 bb300cfdad3c16e7a12a480ee83cd310",
    "f4a8712d7a061bf5bd6d2ca38dc4d50a 9018921c3c673c538a1fc5bad174d6f9 "
    "8181f5470baa50b63fa0f6fddb340f0a 15d484375f8d13e6eb1aabb0c3f46965",
    (26_421_880, 29_515, 4_422_102, 5_148),
)


def mnist() -> Source:
    """Handwritten digits.

    Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, "Gradient-based learning applied to document recognition",
    *Proceedings of the IEEE* 86(11), 1998 (CC BY-SA 3.0).
    """
    return _source("mnist", MNIST)


def fashion_mnist() -> Source:
    """Articles of clothing.

    H. Xiao, K. Rasul and R. Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning
    algorithms", arXiv:1708.07747, 2017 (MIT).
    """
    return _source("fashion-mnist", FASHION_MNIST)


def _source(name: str, files: tuple[Published, ...]) -> Source:
    x, y, test_x, test_y = (parse_idx(read(p, member)) for p in files for member in p.contents)
    return Source(name, x[:, None], y, test_x[:, None], test_y, classes=10, scale=1 / 255, owned=True)


def parse_idx(raw: bytes) -> NDArray[Any]:
    """An array of bytes in LeCun's idx format: two zeros, the type, how many axes, their lengths, the values."""
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08":
        raise DataError("idx file must start with the bytes 0, 0, 8 (unsigned bytes), it doesn't")
    start = 4 + 4 * raw[3]
    shape = tuple(int.from_bytes(raw[i : i + 4], "big") for i in range(4, start, 4))
    if len(raw) != start + math.prod(shape):
        raise DataError(f"idx file of shape {list(shape)} must have {start + math.prod(shape)} bytes, got {len(raw)}")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)
