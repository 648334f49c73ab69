"""CIFAR-10: 50,000 + 10,000 colour images of 32×32 in ten classes, from the official binary version.

Nothing is unpickled: a file is 10,000 records of one label byte and 3,072 pixel bytes (red, green and blue planes).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hcsfed.data.files import Published, read
from hcsfed.data.source import Source

_ROWS = 10_000
_PIXELS = 3 * 32 * 32

CIFAR10 = Published(
    folders=("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10", "cifar-10", "."),
    name="cifar-10-binary.tar.gz",
    urls=(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets/cifar-10-binary.tar.gz",
    ),
    digest="md5:c32a1d4ab5d03f1284b67883e8d87530",
    contents={
        "data_batch_1.bin": "md5:5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "md5:5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "md5:942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "md5:ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "md5:53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "md5:803d5f7f4d78ea53de84dbe85f74fb6d",
    },
    size=170_052_171,
)


def cifar10() -> Source:
    """Colour photographs, stored as bytes [3, 32, 32]; the model sees values in [−1, 1] (x / 127.5 − 1).

    A. Krizhevsky, *Learning multiple layers of features from tiny images*, University of Toronto, 2009 (no licence
    stated).
    """
    batches = list(CIFAR10.contents)
    x = np.empty((5 * _ROWS, 3, 32, 32), np.uint8)
    y = np.empty(5 * _ROWS, np.uint8)
    for i, batch in enumerate(batches[:-1]):
        rows = slice(i * _ROWS, (i + 1) * _ROWS)
        fill(read(CIFAR10, batch), x[rows], y[rows])
    test_x, test_y = np.empty((_ROWS, 3, 32, 32), np.uint8), np.empty(_ROWS, np.uint8)
    fill(read(CIFAR10, batches[-1]), test_x, test_y)
    return Source("cifar10", x, y, test_x, test_y, classes=10, scale=1 / 127.5, shift=-1.0, owned=True)


def fill(raw: bytes, x: NDArray[np.uint8], y: NDArray[np.uint8]) -> None:
    """Records of one label byte and 3,072 pixel bytes → the rows of x and y."""
    records = np.frombuffer(raw, np.uint8).reshape(len(y), 1 + _PIXELS)
    y[:] = records[:, 0]
    x[:] = records[:, 1:].reshape(x.shape)
