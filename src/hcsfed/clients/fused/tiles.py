"""Two skinny matrix products held in vector registers, for training many small models on one CPU core each.

Ten output columns leave a general matrix product memory-bound. Here a tile of ten rows of W (row c holds the weights of
output c, as in ``torch.nn.Linear``) meets two rows of x at once, and all their products stay in registers:

- :func:`dots`     z[r, c] = scale · Σ_j x[rows[r], j] · W[c, j] + offset[c]       (forward)
- :func:`pile`     W[c, j] += scale · Σ_r g[r, c] · x[rows[r], j] + base[c]      (gradient step; back through a layer)

``x`` is float32 or uint8, converted on its way into the register and read by row number, so nothing is gathered. ``W``
is float32 with its rows padded to a multiple of ``PADDING``; the padding never enters a product with anything but 0.

Sums are added up in an order that depends on shapes alone: the same floats on every call.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
import numba
from numba.core import cgutils, types
from numba.extending import intrinsic

from hcsfed.clients.fused.vectors import (
    ABREAST,
    I64,
    LANES,
    PADDING,
    VEC,
    first_lanes,
    load,
    muladd,
    number,
    plane,
    splat,
    store,
    sums,
)


def _dot_tile(outs: int) -> Any:
    """z[r + i, c + k] for i < ABREAST and k < outs; the rest of the last vector of z becomes offset.

    In place of rows past m − 1 the last row is computed once more: cheaper than a second tile to compile.
    """

    @intrinsic
    def tile(
        typing: Any, x: Any, rows: Any, r: Any, m: Any, n: Any, w: Any, c: Any, scale: Any, offset: Any, z: Any
    ) -> Any:
        def build(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            x_data, x_stride = plane(context, b, x, args[0])
            w_data, w_stride = plane(context, b, w, args[5])
            z_data, z_stride = plane(context, b, z, args[9])
            offset_data = context.make_array(offset)(context, b, args[8]).data
            rows_data = context.make_array(rows)(context, b, args[1]).data
            r0, m0, n0, c0 = args[2], args[3], args[4], args[6]
            wanted = [b.add(r0, ir.Constant(I64, i)) for i in range(ABREAST)]
            last = b.sub(m0, ir.Constant(I64, 1))
            at = [b.select(b.icmp_signed("<", row, m0), row, last) for row in wanted]
            xs = [b.gep(x_data, [b.mul(b.sext(b.load(b.gep(rows_data, [i])), I64), x_stride)]) for i in at]
            ws = [b.gep(w_data, [b.mul(b.add(c0, ir.Constant(I64, k)), w_stride)]) for k in range(outs)]
            totals = [cgutils.alloca_once_value(b, ir.Constant(VEC, None)) for _ in range(ABREAST * outs)]

            def step(j: ir.Value, mask: ir.Value | None) -> None:
                left = [load(b, b.gep(p, [j]), mask) for p in xs]
                for k, p in enumerate(ws):
                    right = load(b, b.gep(p, [j]))
                    for i, value in enumerate(left):
                        total = totals[i * outs + k]
                        b.store(muladd(b, value, right, b.load(total)), total)

            width = ir.Constant(I64, LANES)
            whole = b.sub(n0, b.srem(n0, width))
            with cgutils.for_range_slice(b, ir.Constant(I64, 0), whole, width, I64) as (j, _):
                step(j, None)
            with b.if_then(b.icmp_signed("<", whole, n0)):
                step(whole, first_lanes(b, b.sub(n0, whole)))
            for i, row in enumerate(at):
                start = b.gep(z_data, [b.add(b.mul(row, z_stride), c0)])
                vectors = [b.load(t) for t in totals[i * outs : (i + 1) * outs]]
                for first in range(0, outs, LANES):
                    part = sums(b, vectors[first : first + LANES])
                    here = b.add(c0, ir.Constant(I64, first))
                    value = muladd(b, part, splat(b, args[7]), load(b, b.gep(offset_data, [here])))
                    store(b, value, b.gep(start, [ir.Constant(I64, first)]))
            return context.get_dummy_value()

        i = types.int64
        return types.void(x, rows, i, i, i, w, i, types.float32, offset, z), build

    return tile


def _pile_tile(outs: int) -> Any:
    """W[c + k, j : j + PADDING] for k < outs, of which only the columns below n are read from x."""

    @intrinsic
    def tile(
        typing: Any,
        x: Any,
        rows: Any,
        m: Any,
        n: Any,
        g: Any,
        gr: Any,
        gc: Any,
        scale: Any,
        base: Any,
        w: Any,
        c: Any,
        j: Any,
    ) -> Any:
        def build(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            x_data, x_stride = plane(context, b, x, args[0])
            g_data, _ = plane(context, b, g, args[4])
            w_data, w_stride = plane(context, b, w, args[9])
            rows_data = context.make_array(rows)(context, b, args[1]).data
            base_data = context.make_array(base)(context, b, args[8]).data
            m0, n0, g_row, g_column, c0, j0 = args[2], args[3], args[5], args[6], args[10], args[11]
            outputs = [b.add(c0, ir.Constant(I64, k)) for k in range(outs)]
            places = [
                b.gep(w_data, [b.add(b.mul(o, w_stride), b.add(j0, ir.Constant(I64, v * LANES)))])
                for o in outputs
                for v in range(ABREAST)
            ]
            gs = [b.gep(g_data, [b.mul(o, g_column)]) for o in outputs]
            starts = [splat(b, b.load(b.gep(base_data, [o]))) for o in outputs for _ in range(ABREAST)]
            totals = [cgutils.alloca_once_value(b, number(0.0)) for _ in places]
            for total in totals:
                b.store(number(0.0), total)
            masks = [first_lanes(b, b.sub(n0, b.add(j0, ir.Constant(I64, v * LANES)))) for v in range(ABREAST)]
            with cgutils.for_range(b, m0, intp=I64) as loop:
                row = b.sext(b.load(b.gep(rows_data, [loop.index])), I64)
                here = b.gep(x_data, [b.add(b.mul(row, x_stride), j0)])
                values = [load(b, b.gep(here, [ir.Constant(I64, v * LANES)]), mask) for v, mask in enumerate(masks)]
                shift = b.mul(loop.index, g_row)
                for k, p in enumerate(gs):
                    factor = splat(b, b.load(b.gep(p, [shift])))
                    for v, value in enumerate(values):
                        total = totals[k * ABREAST + v]
                        b.store(muladd(b, factor, value, b.load(total)), total)
            for p, total, s in zip(places, totals, starts, strict=True):
                store(b, muladd(b, b.load(total), splat(b, args[7]), b.fadd(load(b, p), s)), p)
            return context.get_dummy_value()

        i = types.int64
        return types.void(x, rows, i, i, g, i, i, types.float32, base, w, i, i), build

    return tile


@intrinsic
def column_sums(typing: Any, g: Any, m: Any, n: Any, sums: Any) -> Any:
    """sums[c] = Σ_{r<m} g[r, c] for c < n and on to the end of the last vector."""

    def build(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        data, stride = plane(context, b, g, args[0])
        sums_data = context.make_array(sums)(context, b, args[3]).data
        total = cgutils.alloca_once_value(b, number(0.0))
        zero, width = ir.Constant(I64, 0), ir.Constant(I64, LANES)
        with cgutils.for_range_slice(b, zero, args[2], width, I64) as (j, _):
            b.store(number(0.0), total)
            with cgutils.for_range(b, args[1], intp=I64) as row:
                here = b.gep(data, [b.add(b.mul(row.index, stride), j)])
                b.store(b.fadd(b.load(total), load(b, here)), total)
            store(b, b.load(total), b.gep(sums_data, [j]))
        return context.get_dummy_value()

    return types.void(g, types.int64, types.int64, sums), build


@intrinsic
def _stay_apart(typing: Any) -> Any:
    """Keep the function that says this out of its callers: a copy in each of them would be compiled again and again."""

    def build(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        b.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), build


_dot_10, _dot_4, _dot_1 = (_dot_tile(outs) for outs in (10, 4, 1))
_pile_10, _pile_4, _pile_1 = (_pile_tile(outs) for outs in (10, 4, 1))


@numba.njit(nogil=True)
def dots(x, rows, m, n, w, outs, scale, offset, z):
    """z[r, c] = scale · Σ_{j<n} x[rows[r], j] · w[c, j] + offset[c] for r < m, c < outs.

    ``offset`` and the rows of z need LANES entries more than ``outs``: they take part in whole vectors.
    """
    _stay_apart()
    c = 0
    while c < outs:
        # Upwards: the surplus entries that a tile writes are put right by the next.
        if outs - c >= 10:
            for r in range(0, m, ABREAST):
                _dot_10(x, rows, r, m, n, w, c, scale, offset, z)
            c += 10
        elif outs - c >= 4:
            for r in range(0, m, ABREAST):
                _dot_4(x, rows, r, m, n, w, c, scale, offset, z)
            c += 4
        else:
            for r in range(0, m, ABREAST):
                _dot_1(x, rows, r, m, n, w, c, scale, offset, z)
            c += 1


@numba.njit(nogil=True)
def pile(x, rows, m, n, g, gr, gc, scale, base, w, outs):
    """w[c, j] += scale · Σ_{r<m} g.flat[r·gr + c·gc] · x[rows[r], j] + base[c] for c < outs, j < n."""
    _stay_apart()
    c = 0
    while c < outs:
        if outs - c >= 10:
            for j in range(0, n, PADDING):
                _pile_10(x, rows, m, n, g, gr, gc, scale, base, w, c, j)
            c += 10
        elif outs - c >= 4:
            for j in range(0, n, PADDING):
                _pile_4(x, rows, m, n, g, gr, gc, scale, base, w, c, j)
            c += 4
        else:
            for j in range(0, n, PADDING):
                _pile_1(x, rows, m, n, g, gr, gc, scale, base, w, c, j)
            c += 1
