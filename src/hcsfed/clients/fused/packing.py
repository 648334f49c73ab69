"""The parameters as the kernels hold them: one flat float32 array, padded to whole vectors.

Layer after layer: W, its rows padded to a multiple of ``PADDING``, then the bias, padded as well. ``shape`` says where:
one row per layer of (inputs, outputs, first entry of W, first entry of the bias, 1 where the model has that bias).
"""

from __future__ import annotations

import numba
import numpy as np

from hcsfed.clients.fused.vectors import PADDING

_LINE = 16  # floats in a cache line; vectors that straddle two lines load at half the speed


@numba.njit(nogil=True)
def zeros(size):
    """Zeros that begin on a cache line."""
    room = np.zeros(size + _LINE, np.float32)
    first = -(room.ctypes.data // 4) % _LINE
    return room[first : first + size]


@numba.njit(nogil=True)
def padded(n):
    """The next multiple of PADDING."""
    return (n + PADDING - 1) // PADDING * PADDING


@numba.njit(nogil=True)
def layer_of(flat, shape, layer):
    """Views of one layer's W and bias."""
    ins, outs, w, bias, _ = shape[layer]
    return flat[w : w + outs * padded(ins)].reshape(outs, padded(ins)), flat[bias : bias + padded(outs)]


@numba.njit(nogil=True, cache=True)
def pack(vector, shape, flat):
    """A parameter vector into the padded form."""
    at = 0
    for layer in range(len(shape)):
        ins, outs = shape[layer, 0], shape[layer, 1]
        w, bias = layer_of(flat, shape, layer)
        for c in range(outs):
            for j in range(ins):
                w[c, j] = vector[at + j]
            at += ins
        if shape[layer, 4]:
            for c in range(outs):
                bias[c] = vector[at + c]
            at += outs


@numba.njit(nogil=True)
def unpack_difference(flat, origin, shape, vector):
    """Padded ``flat − origin`` into a parameter vector."""
    at = 0
    for layer in range(len(shape)):
        ins, outs = shape[layer, 0], shape[layer, 1]
        w, bias = layer_of(flat, shape, layer)
        w0, bias0 = layer_of(origin, shape, layer)
        for c in range(outs):
            for j in range(ins):
                vector[at + j] = w[c, j] - w0[c, j]
            at += ins
        if shape[layer, 4]:
            for c in range(outs):
                vector[at + c] = bias[c] - bias0[c]
            at += outs
