"""Your own images, sorted into a folder per class → a :class:`~hcsfed.data.source.Source`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hcsfed.data.own import from_arrays
from hcsfed.data.source import Source
from hcsfed.errors import DataError, bad

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def from_folder(
    path: str | Path,
    *,
    size: int | Sequence[int] | None = None,
    mode: Literal["RGB", "L"] = "RGB",
    test: float = 0.2,
    seed: int = 0,
) -> Source:
    """``PATH/cat/1.png`` and so on, a folder per class; or ``PATH/train/cat/1.png`` beside ``PATH/test/cat/1.png``.

    Parameters
    ----------
    size
        Height and width (or one number for both) that all images are scaled to; by default they must be alike.
    mode
        ``"RGB"`` or ``"L"`` (grey).
    test
        Share of the images drawn for the test set, where there is no ``test`` folder.
    """
    path = Path(path)
    owner = f"folder {path}"
    if mode not in ("RGB", "L"):
        raise bad("mode", owner, "'RGB' or 'L'", mode)
    shape = None if size is None else (size, size) if isinstance(size, int) else tuple(size)
    if shape is not None and (len(shape) != 2 or not all(isinstance(n, int) and n > 0 for n in shape)):
        raise bad("size", owner, "an int >= 1, or two of them", size)
    split = (path / "train").is_dir() and (path / "test").is_dir()
    top = path / "train" if split else path
    names = sorted(p.name for p in top.iterdir() if p.is_dir() and not p.name.startswith(".")) if top.is_dir() else []
    x, y = _images(top, names, shape, mode)
    tests = _images(path / "test", names, (x.shape[2], x.shape[3]), mode) if split else (None, None)
    source = from_arrays(x, y, *tests, classes=len(names), test=test, seed=seed, name=path.name)
    return replace(source, owned=True, about={"class_names": names})


def _images(
    top: Path, names: list[str], shape: tuple[int, ...] | None, mode: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All images as [n, planes, height, width], read one by one into their place."""
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(f"reading images in {top} needs Pillow (pip install 'hcsfed[sim]')") from error
    files = [(p, c) for c, n in enumerate(names) for p in sorted((top / n).rglob("*")) if p.suffix.lower() in SUFFIXES]
    if not files:
        raise DataError(f"{top} must hold a folder of images ({' '.join(SUFFIXES)}) for each class, it holds no image")
    x: NDArray[np.uint8] | None = None
    for i, (file, _) in enumerate(files):
        try:
            with Image.open(file) as opened:
                image = opened.convert(mode)
        except OSError as error:
            raise DataError(f"{file} is no readable image: {error}") from error
        pixels = np.asarray(image if shape is None else image.resize((shape[1], shape[0])), np.uint8)
        planes = pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)
        if x is None:
            x = np.empty((len(files), *planes.shape), np.uint8)
        if planes.shape != x.shape[1:]:
            sizes = f"{x.shape[2]}x{x.shape[3]} and {planes.shape[1]}x{planes.shape[2]} ({file.name})"
            raise bad("size", f"folder {top}", "given where images differ in size", sizes)
        x[i] = planes
    return np.asarray(x), np.array([c for _, c in files])
