"""Clusters that share one kept vector, where a vector for each client is too much to keep."""

from __future__ import annotations

import numpy as np

from hcsfed.rng import stream
from hcsfed.types import Features, Floats, Ints


def clustered(x: Features, clusters: int) -> Ints:
    """k-means of the features; the same for the same features, whoever runs it."""
    from warnings import catch_warnings, simplefilter

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    seed = int(stream(0, "proxy clusters").integers(1 << 31))
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)  # fewer distinct clients than clusters
        labels = KMeans(clusters, n_init=1, random_state=seed).fit_predict(x)
    return np.asarray(labels, np.int64)


def joined(labels: Ints, clients: int) -> Ints:
    """The labels, and for clients that have come behind and said nothing yet, that of the largest cluster."""
    return np.concatenate([labels, np.full(clients - len(labels), np.bincount(labels).argmax())])


def centres(x: Features, labels: Ints, clusters: int) -> Floats:
    """The mean of each cluster's members; infinitely far from everybody where there are none."""
    middle = np.full((clusters, x.shape[1]), np.inf)
    for h in np.unique(labels):
        middle[h] = x[labels == h].mean(axis=0, dtype=np.float64)
    return middle
