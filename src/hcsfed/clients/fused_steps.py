"""One client's local training, and one block's evaluation, of a stack of Linear and ReLU: compiled, on one core.

The parameters live in one flat float32 array, layer after layer: W with its rows padded to a multiple of ``LANES``, then
the bias, padded as well. ``shape`` says where: one row per layer of (inputs, outputs, first entry of W, first entry of the
bias, 1 where the model has that bias). Padding stays 0. Logistic regression is the stack of one layer.

Rows are drawn on the way (:func:`hcsfed.clients.plan.minibatch`), read by number, and scaled after the product:
(x·scale + shift)·Wᵀ = scale·(x·Wᵀ) + shift·Σ_j W.
"""

from __future__ import annotations

import numba
import numpy as np

from hcsfed.clients.fused_tiles import LANES, dots, exponentials, pile
from hcsfed.clients.plan import minibatch

_LINE = 16  # floats in a cache line; vectors that straddle two lines load at half the speed
# Sums may be reordered into vectors (always the same way); NaN and infinity keep their meaning.
_MATH = {"reassoc", "contract", "nsz"}


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _zeros(size):  # type: ignore[no-untyped-def]
    room = np.zeros(size + _LINE, np.float32)
    first = (-(room.ctypes.data // 4)) % _LINE
    return room[first : first + size]


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def padded(n):  # type: ignore[no-untyped-def]
    """The next multiple of LANES."""
    return (n + LANES - 1) // LANES * LANES


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _layer(flat, shape, layer):  # type: ignore[no-untyped-def]
    """Views of one layer's W and bias."""
    ins, outs, w, bias, _ = shape[layer]
    return flat[w : w + outs * padded(ins)].reshape(outs, padded(ins)), flat[bias : bias + padded(outs)]


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def pack(vector, shape, flat):  # type: ignore[no-untyped-def]
    """A parameter vector into the padded form."""
    at = 0
    for layer in range(len(shape)):
        ins, outs = shape[layer, 0], shape[layer, 1]
        w, bias = _layer(flat, shape, layer)
        for c in range(outs):
            w[c, :ins] = vector[at : at + ins]
            at += ins
        if shape[layer, 4]:
            bias[:outs] = vector[at : at + outs]
            at += outs


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _unpack_difference(flat, origin, shape, vector):  # type: ignore[no-untyped-def]
    """Padded ``flat − origin`` into a parameter vector."""
    at = 0
    for layer in range(len(shape)):
        ins, outs = shape[layer, 0], shape[layer, 1]
        w, bias = _layer(flat, shape, layer)
        w0, bias0 = _layer(origin, shape, layer)
        for c in range(outs):
            for j in range(ins):
                vector[at + j] = w[c, j] - w0[c, j]
            at += ins
        if shape[layer, 4]:
            for c in range(outs):
                vector[at + c] = bias[c] - bias0[c]
            at += outs


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def _room(shape, m):  # type: ignore[no-untyped-def]
    """Arrays for each layer's outputs, m rows each; a tile may write LANES columns past the last output."""
    return [
        _zeros(m * (padded(shape[layer, 1]) + LANES)).reshape(m, padded(shape[layer, 1]) + LANES)
        for layer in range(len(shape))
    ]


@numba.njit(nogil=True, fastmath=_MATH)  # type: ignore[untyped-decorator]
def _forward(x, rows, m, scale, shift, flat, shape, count_up, z):  # type: ignore[no-untyped-def]
    """Outputs of every layer, after its ReLU where one follows."""
    last = len(shape) - 1
    for layer in range(last + 1):
        ins, outs = shape[layer, 0], shape[layer, 1]
        w, bias = _layer(flat, shape, layer)
        out = z[layer]
        if layer == 0:
            dots(x, rows, m, ins, w, outs, out)
            offset = bias.copy()
            if shift != 0:
                for c in range(outs):
                    offset[c] += shift * w[c, :ins].sum()
            for r in range(m):
                for c in range(padded(outs)):
                    out[r, c] = out[r, c] * scale + offset[c]
        else:
            dots(z[layer - 1], count_up, m, ins, w, outs, out)
            for r in range(m):
                for c in range(padded(outs)):
                    out[r, c] += bias[c]
        if layer < last:
            for r in range(m):
                for c in range(padded(outs)):
                    # Written this way round, NaN stays NaN.
                    out[r, c] = np.float32(0) if out[r, c] < 0 else out[r, c]


@numba.njit(nogil=True, fastmath=_MATH)  # type: ignore[untyped-decorator]
def _cross_entropy(z, m, outs, y, rows, factor):  # type: ignore[no-untyped-def]
    """Sum of the losses; z becomes ``factor`` times its gradient."""
    total = 0.0
    for r in range(m):
        top = z[r, 0]
        for c in range(1, outs):
            top = max(top, z[r, c])
        total += top - z[r, y[rows[r]]]
        for c in range(padded(outs)):
            z[r, c] -= top
        z[r, outs:] = 0
    exponentials(z)
    for r in range(m):
        mass = np.float32(0)
        for c in range(outs):
            mass += z[r, c]
        total += np.log(mass)
        share = factor / mass
        for c in range(padded(outs)):
            z[r, c] *= share
        z[r, y[rows[r]]] -= factor
    return total


@numba.njit(nogil=True, fastmath=_MATH)  # type: ignore[untyped-decorator]
def _backward(x, rows, m, scale, shift, flat, shape, keep, drift, count_up, z, sums):  # type: ignore[no-untyped-def]
    """w ← keep · w + drift − η·∇; the last z holds −η times the loss's gradient, the other z the activations."""
    for layer in range(len(shape) - 1, -1, -1):
        ins, outs = shape[layer, 0], shape[layer, 1]
        w, bias = _layer(flat, shape, layer)
        g = z[layer]
        stride = g.shape[1]
        if layer > 0:  # back through W as it was
            sums[:] = 0
            back = _zeros(m * padded(ins)).reshape(m, padded(ins))
            pile(w, count_up, outs, ins, g, 1, stride, sums, back, m)
        if keep != 1:
            for i in range(shape[layer, 2], shape[layer, 3] + padded(outs)):
                flat[i] *= keep
        if len(drift):
            for i in range(shape[layer, 2], shape[layer, 3] + padded(outs)):
                flat[i] += drift[i]
        sums[:] = 0
        for r in range(m):
            for c in range(padded(outs)):
                sums[c] += g[r, c]
        if shape[layer, 4]:
            for c in range(outs):
                bias[c] += sums[c]
        if layer == 0:
            for r in range(m):
                for c in range(padded(outs)):
                    g[r, c] *= scale
            for c in range(outs):
                sums[c] *= shift
            pile(x, rows, m, ins, g, stride, 1, sums, w, outs)
        else:
            below = z[layer - 1]
            sums[:] = 0
            pile(below, count_up, m, ins, g, stride, 1, sums, w, outs)
            for r in range(m):
                for c in range(padded(ins)):
                    below[r, c] = back[r, c] if below[r, c] > 0 else np.float32(0)


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def train_one(  # type: ignore[no-untyped-def]
    x, y, scale, shift, key, steps, batch, walk, lr, keep, drift, origin, shape, update
):
    """Local SGD from ``origin`` (padded): writes w_k − w to ``update``, returns the mean minibatch loss.

    A step is w ← keep · w + drift − η·∇ (weight decay, proximal term, correction), ``drift`` being padded like w, or empty
    where there is none of this.
    """
    n = len(x)
    widest = padded(shape[:, 1].max())
    most = min(batch, n)
    flat = _zeros(len(origin))
    flat[:] = origin
    order = np.arange(n).astype(np.int32)
    count_up = np.arange(max(most, widest)).astype(np.int32)
    z = _room(shape, most)
    sums = np.zeros(max(widest, most + 1), np.float32)
    counter, at, m = np.uint64(0), n, 0
    total = 0.0
    for _ in range(steps):
        counter, at, m = minibatch(key, counter, order, at + m, n, batch, walk)
        rows = order[at : at + m]
        _forward(x, rows, m, scale, shift, flat, shape, count_up, z)
        factor = np.float32(-lr / m)
        total += _cross_entropy(z[-1], m, shape[-1, 1], y, rows, factor) / m
        _backward(x, rows, m, scale, shift, flat, shape, keep, drift, count_up, z, sums)
    _unpack_difference(flat, origin, shape, update)
    return total / steps if steps else np.nan


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def score(x, y, scale, shift, flat, shape):  # type: ignore[no-untyped-def]
    """Summed loss and number of right answers on these rows."""
    block = 64
    count_up = np.arange(block).astype(np.int32)
    z = _room(shape, block)
    outs = shape[-1, 1]
    loss, right = 0.0, 0
    for start in range(0, len(x), block):
        m = min(block, len(x) - start)
        here, labels = x[start : start + m], y[start : start + m]
        _forward(here, count_up, m, scale, shift, flat, shape, count_up, z)
        for r in range(m):
            best = 0
            for c in range(1, outs):
                if z[-1][r, c] > z[-1][r, best]:
                    best = c
            right += best == labels[r]
        loss += _cross_entropy(z[-1], m, outs, labels, count_up, np.float32(1))
    return loss, right
