"""scikit-learn's handwritten digits: 1,797 images of 8×8, inside the installed package, nothing to download."""

from __future__ import annotations

import numpy as np

from hcsfed.data.source import Source
from hcsfed.rng import stream

_TEST_SHARE = 0.2


def digits() -> Source:
    """Grey levels 0 … 16, one image in five held out for testing (evenly over the classes, always the same ones).

    E. Alpaydin and C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998
    (CC BY 4.0).
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = bunch.images.astype(np.uint8)[:, None]
    y = bunch.target.astype(np.uint8)
    order = stream(0, "digits test set").permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    # Sorted by class, every fifth row: each class gives its share.
    test = np.zeros(len(y), bool)
    test[order[:: round(1 / _TEST_SHARE)]] = True
    return Source("digits", x[~test], y[~test], x[test], y[test], classes=10, scale=1 / 16, owned=True)
