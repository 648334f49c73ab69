"""Clusters that share one kept vector, where a vector for each client is too much to keep."""

from __future__ import annotations

import numpy as np

from hcsfed.errors import bad
from hcsfed.rng import stream
from hcsfed.types import Features, Ints, View


def clustered(view: View, clusters: int, owner: str) -> Ints:
    """k-means of the features; the same for the same features, whoever runs it."""
    from warnings import catch_warnings, simplefilter

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    seed = int(stream(0, "proxy clusters").integers(1 << 31))
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)  # fewer distinct clients than clusters
        labels = KMeans(clusters, n_init=1, random_state=seed).fit_predict(features_of(view, owner))
    return np.asarray(labels, np.int64)


def features_of(view: View, owner: str) -> Features:
    """The features of a view that must have them; of whom nothing is known, zeros."""
    if view.features is None:
        raise bad("view", owner, "given with features", None)
    if np.isfinite(view.features.sum()):
        return view.features
    rows = view.features.copy()
    rows[~np.isfinite(rows).all(axis=1)] = 0
    return rows
