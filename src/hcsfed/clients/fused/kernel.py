"""One client's local training, and the scores of blocks of rows, for a stack of Linear and ReLU: compiled, on one core.

Rows are drawn on the way (:func:`hcsfed.clients.plan.minibatch`), read by number, and scaled after the product:
(x·scale + shift)·Wᵀ = scale·(x·Wᵀ) + shift·Σ_j W. Logistic regression is the stack of one layer. How the parameters lie
in ``flat`` is said in :mod:`hcsfed.clients.fused.packing`.

Numba's cache watches this file alone: whoever changes what is called from here must touch it too.
"""

from __future__ import annotations

import numba
import numpy as np

from hcsfed.clients.fused.packing import layer_of, padded, unpack_difference, zeros
from hcsfed.clients.fused.softmax import softmax
from hcsfed.clients.fused.tiles import column_sums, dots, pile
from hcsfed.clients.fused.vectors import LANES
from hcsfed.clients.plan import minibatch

_TOGETHER = 64  # rows that are scored at a time
# Sums may be reordered into vectors (always the same way); NaN and infinity keep their meaning.
_MATH = {"reassoc", "contract", "nsz"}


@numba.njit(nogil=True)
def _clear(row):
    for i in range(len(row)):
        row[i] = 0


@numba.njit(nogil=True)
def _lanes(n):
    """The next multiple of LANES: loops over whole vectors are quicker than loops to an odd end."""
    return (n + LANES - 1) // LANES * LANES


@numba.njit(nogil=True)
def _room(shape, m):
    """z[layer, r, c]: outputs of m rows; a tile may write LANES columns past the last output."""
    width = 0
    for layer in range(len(shape)):
        width = max(width, padded(shape[layer, 1]) + LANES)
    return zeros(len(shape) * m * width).reshape(len(shape), m, width)


@numba.njit(nogil=True)
def _count_up(n):
    """The row numbers of an array that is read from its beginning."""
    rows = np.empty(n, np.int32)
    for i in range(n):
        rows[i] = i
    return rows


@numba.njit(nogil=True, fastmath=_MATH)
def _forward(x, rows, m, scale, shift, flat, shape, count_up, z, offset):
    """Outputs of every layer, after its ReLU where one follows."""
    last = len(shape) - 1
    for layer in range(last + 1):
        ins, outs = shape[layer, 0], shape[layer, 1]
        w, bias = layer_of(flat, shape, layer)
        out = z[layer]
        if layer == 0:
            for c in range(outs):
                total = np.float32(0)
                if shift != 0:
                    for j in range(ins):
                        total += w[c, j]
                offset[c] = bias[c] + shift * total
            dots(x, rows, m, ins, w, outs, scale, offset, out)
        else:
            for c in range(outs):
                offset[c] = bias[c]
            dots(z[layer - 1], count_up, m, ins, w, outs, np.float32(1), offset, out)
        if layer < last:
            for r in range(m):
                for c in range(_lanes(outs)):
                    # Written this way round, NaN stays NaN.
                    out[r, c] = np.float32(0) if out[r, c] < 0 else out[r, c]


@numba.njit(nogil=True, fastmath=_MATH)
def _cross_entropy(z, m, outs, y, rows, factor, top, mass):
    """Sum of the losses; z becomes ``factor`` times its gradient."""
    total = 0.0
    for r in range(m):
        total -= z[r, y[rows[r]]]
    softmax(z, m, outs, factor, top, mass)
    product = 1.0  # one logarithm for several rows: each mass is in [1, outs]
    for r in range(m):
        total += top[r]
        product *= mass[r]
        if r % 16 == 15:
            total += np.log(product)
            product = 1.0
        z[r, y[rows[r]]] -= factor
    return total + np.log(product)


@numba.njit(nogil=True, fastmath=_MATH)
def _backward(x, rows, m, scale, shift, flat, shape, keep, drift, count_up, z, sums):
    """One step, w ← keep · w + drift − η·∇. The last z holds −η times the loss's gradient, the others activations."""
    for layer in range(len(shape) - 1, -1, -1):
        ins, outs = shape[layer, 0], shape[layer, 1]
        w, bias = layer_of(flat, shape, layer)
        g = z[layer]
        stride = g.shape[1]
        if layer > 0:  # back through W as it was
            _clear(sums)
            back = zeros(m * padded(ins)).reshape(m, padded(ins))
            pile(w, count_up, outs, ins, g, 1, stride, np.float32(1), sums, back, m)
        if keep != 1:
            for i in range(shape[layer, 2], shape[layer, 3] + padded(outs)):
                flat[i] *= keep
        if len(drift):
            for i in range(shape[layer, 2], shape[layer, 3] + padded(outs)):
                flat[i] += drift[i]
        column_sums(g, m, outs, sums)
        if shape[layer, 4]:
            for c in range(outs):
                bias[c] += sums[c]
        if layer == 0:
            for c in range(outs):
                sums[c] *= shift
            pile(x, rows, m, ins, g, stride, 1, scale, sums, w, outs)
        else:
            below = z[layer - 1]
            _clear(sums)
            pile(below, count_up, m, ins, g, stride, 1, np.float32(1), sums, w, outs)
            for r in range(m):
                for c in range(_lanes(ins)):
                    below[r, c] = back[r, c] if below[r, c] > 0 else np.float32(0)


@numba.njit(nogil=True, cache=True)
def train_one(x, y, scale, shift, key, steps, batch, walk, lr, keep, drift, origin, shape, update):
    """Local SGD from ``origin`` (padded): writes w_k − w to ``update``, returns the mean minibatch loss.

    A step is w ← keep · w + drift − η·∇ (weight decay, proximal term, correction), ``drift`` being padded like w, or
    empty where there is none of this.
    """
    n, last = len(x), len(shape) - 1
    most = min(batch, n)
    z = _room(shape, most)
    flat = zeros(len(origin))
    for i in range(len(origin)):
        flat[i] = origin[i]
    order = _count_up(n)
    count_up = _count_up(max(most, z.shape[2]))
    sums, top, mass = zeros(len(count_up)), zeros(most), zeros(most)
    counter, at, m = np.uint64(0), n, 0
    total = 0.0
    for _ in range(steps):
        counter, at, m = minibatch(key, counter, order, at + m, n, batch, walk)
        rows = order[at : at + m]
        _forward(x, rows, m, scale, shift, flat, shape, count_up, z, sums)
        factor = np.float32(-lr / m)
        total += _cross_entropy(z[last], m, shape[last, 1], y, rows, factor, top, mass) / m
        _backward(x, rows, m, scale, shift, flat, shape, keep, drift, count_up, z, sums)
    unpack_difference(flat, origin, shape, update)
    return total / steps if steps else np.nan


@numba.njit(nogil=True, cache=True)
def score_each(x, y, starts, stops, scale, shift, flat, shape, sums):
    """Into ``sums[i]``: summed loss and number of right answers on rows ``starts[i]:stops[i]``."""
    count_up = _count_up(_TOGETHER)
    z = _room(shape, _TOGETHER)
    offset, top, mass = zeros(z.shape[2]), zeros(_TOGETHER), zeros(_TOGETHER)
    last = len(shape) - 1
    outs = shape[last, 1]
    for i in range(len(starts)):
        loss, right = 0.0, 0
        for start in range(starts[i], stops[i], _TOGETHER):
            m = min(_TOGETHER, stops[i] - start)
            labels = y[start : start + m]
            _forward(x[start : start + m], count_up, m, scale, shift, flat, shape, count_up, z, offset)
            right += _right(z[last], m, outs, labels)
            loss += _cross_entropy(z[last], m, outs, labels, count_up, np.float32(1), top, mass)
        sums[i, 0] = loss
        sums[i, 1] = right


@numba.njit(nogil=True)
def _right(z, m, outs, labels):
    """Rows whose largest output, of equals the first, is their label's. NaN is never right."""
    right = 0
    for r in range(m):
        label = labels[r]
        value = z[r, label]
        rivals = 0
        for c in range(outs):
            rivals += (1 - (z[r, c] <= value)) | ((z[r, c] == value) & (c < label))  # without a branch
        right += rivals == 0
    return right
