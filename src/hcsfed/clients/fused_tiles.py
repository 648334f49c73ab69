"""Two skinny matrix products held in vector registers, for training many small models on one CPU core each.

Ten output columns leave a general matrix product memory-bound. Here a tile of ten rows of W (row c holds the weights of
output c, as in ``torch.nn.Linear``) meets two rows of x at once, and all their products stay in registers:

- :func:`dots`     z[r, c] = Σ_j x[rows[r], j] · W[c, j]                          (forward, and Gram matrices)
- :func:`pile`     W[c, j] = W[c, j] + base[c] + Σ_r g[r, c] · x[rows[r], j]      (gradient step; back through a layer)

``x`` is float32 or uint8, converted on its way into the register and read by row number, so nothing is gathered. ``W`` is
float32 with its rows padded to a multiple of ``LANES``; the padding never enters a product with anything but 0.

The tiles are written in LLVM's vector instructions, since loops in Python leave the width and the registers to the
compiler's taste. Sums are added up in an order that depends on shapes alone: the same floats on every call.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numba
from numba.core import cgutils, types
from numba.extending import intrinsic

_WIDE = llvm.get_host_cpu_features().get("avx512f", False)
LANES = 16 if _WIDE else 8
"""Floats in a vector."""
_ABREAST = 2 if _WIDE else 1
"""Rows of x (in dots) or vectors of a row (in pile) that meet a tile at once: 32 registers hold twice what 16 do."""

_F32 = ir.FloatType()
_I64 = ir.IntType(64)
_VEC = ir.VectorType(_F32, LANES)


def _splat(b: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    kind = ir.VectorType(scalar.type, LANES)
    one = b.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    return b.shuffle_vector(
        one, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    )


def _call(b: ir.IRBuilder, name: str, result: ir.Type, *args: ir.Value) -> ir.Value:
    kind = ir.FunctionType(result, [a.type for a in args])
    return b.call(cgutils.get_or_insert_function(b.module, kind, name), args)


def _muladd(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    return _call(b, f"llvm.fmuladd.v{LANES}f32", _VEC, x, y, z)


def _load(b: ir.IRBuilder, pointer: ir.Value, mask: ir.Value | None = None) -> ir.Value:
    """LANES neighbours from here, as floats; where a mask is given, 0 for the lanes outside it."""
    kind = ir.VectorType(pointer.type.pointee, LANES)
    pointer = b.bitcast(pointer, kind.as_pointer())
    if mask is None:
        raw = b.load(pointer, align=1)
    else:
        letter = "f32" if kind.element == _F32 else "i8"
        name = f"llvm.masked.load.v{LANES}{letter}.p0"
        raw = _call(b, name, kind, pointer, ir.Constant(ir.IntType(32), 1), mask, ir.Constant(kind, None))
    return raw if kind == _VEC else b.uitofp(raw, _VEC)


def _store(b: ir.IRBuilder, value: ir.Value, pointer: ir.Value) -> None:
    b.store(value, b.bitcast(pointer, _VEC.as_pointer()), align=4)


def _first(b: ir.IRBuilder, count: ir.Value) -> ir.Value:
    """The mask of the first ``count`` lanes."""
    lanes = ir.Constant(ir.VectorType(_I64, LANES), list(range(LANES)))
    return b.icmp_signed("<", lanes, _splat(b, count))


def _sums(b: ir.IRBuilder, vectors: list[ir.Value]) -> ir.Value:
    """Lane k of the result is the sum of the lanes of vector k (0 where there is none): halve and join, log₂ times."""
    zero = ir.Constant(_VEC, None)
    level = [*vectors, *[zero] * (LANES - len(vectors))]
    groups = 1
    while len(level) > 1:
        half = LANES // groups // 2
        low = [2 * half * g + t for g in range(groups) for t in range(half)]
        picks = low + [LANES + i for i in low]
        kind = ir.VectorType(ir.IntType(32), LANES)
        left, right = ir.Constant(kind, picks), ir.Constant(kind, [i + half for i in picks])
        level = [
            b.fadd(b.shuffle_vector(u, v, left), b.shuffle_vector(u, v, right))
            if u is not zero or v is not zero
            else zero
            for u, v in zip(level[::2], level[1::2], strict=True)
        ]
        groups *= 2
    return level[0]


def _data(context: Any, b: ir.IRBuilder, kind: Any, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Pointer to the first element of a two-dimensional array, and the elements in one of its rows."""
    array = context.make_array(kind)(context, b, value)
    return array.data, cgutils.unpack_tuple(b, array.shape)[1]


def _dot_tile(abreast: int, outs: int) -> Any:
    """z[r + i, c + k] for i < abreast and k < outs. Writes LANES entries of z from c on, the surplus ones 0."""

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(typing: Any, x: Any, rows: Any, r: Any, n: Any, w: Any, c: Any, z: Any) -> Any:
        def build(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            x_data, x_stride = _data(context, b, x, args[0])
            w_data, w_stride = _data(context, b, w, args[4])
            z_data, z_stride = _data(context, b, z, args[6])
            rows_data = context.make_array(rows)(context, b, args[1]).data
            r0, n0, c0 = args[2], args[3], args[5]
            at = [b.add(r0, ir.Constant(_I64, i)) for i in range(abreast)]
            xs = [b.gep(x_data, [b.mul(b.sext(b.load(b.gep(rows_data, [i])), _I64), x_stride)]) for i in at]
            ws = [b.gep(w_data, [b.mul(b.add(c0, ir.Constant(_I64, k)), w_stride)]) for k in range(outs)]
            totals = [cgutils.alloca_once_value(b, ir.Constant(_VEC, None)) for _ in range(abreast * outs)]

            def step(j: ir.Value, mask: ir.Value | None) -> None:
                left = [_load(b, b.gep(p, [j]), mask) for p in xs]
                for k, p in enumerate(ws):
                    right = _load(b, b.gep(p, [j]))
                    for i, value in enumerate(left):
                        total = totals[i * outs + k]
                        b.store(_muladd(b, value, right, b.load(total)), total)

            width = ir.Constant(_I64, LANES)
            whole = b.sub(n0, b.srem(n0, width))
            with cgutils.for_range_slice(b, ir.Constant(_I64, 0), whole, width, _I64) as (j, _):
                step(j, None)
            with b.if_then(b.icmp_signed("<", whole, n0)):
                step(whole, _first(b, b.sub(n0, whole)))
            for i, row in enumerate(at):
                start = b.gep(z_data, [b.add(b.mul(row, z_stride), c0)])
                vectors = [b.load(t) for t in totals[i * outs : (i + 1) * outs]]
                for first in range(0, outs, LANES):
                    part = _sums(b, vectors[first : first + LANES])
                    _store(b, part, b.gep(start, [ir.Constant(_I64, first)]))
            return context.get_dummy_value()

        return types.void(x, rows, types.int64, types.int64, w, types.int64, z), build

    return tile


def _pile_tile(outs: int, vectors: int) -> Any:
    """W[c + k, j : j + vectors · LANES] for k < outs, of which only the columns below n are read from x."""

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(typing: Any, x: Any, rows: Any, m: Any, n: Any, g: Any, gr: Any, gc: Any, base: Any, w: Any, c: Any, j: Any) -> Any:
        def build(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            x_data, x_stride = _data(context, b, x, args[0])
            g_data, _ = _data(context, b, g, args[4])
            w_data, w_stride = _data(context, b, w, args[8])
            rows_data = context.make_array(rows)(context, b, args[1]).data
            base_data = context.make_array(base)(context, b, args[7]).data
            m0, n0, g_row, g_column, c0, j0 = args[2], args[3], args[5], args[6], args[9], args[10]
            outputs = [b.add(c0, ir.Constant(_I64, k)) for k in range(outs)]
            places = [
                b.gep(w_data, [b.add(b.mul(o, w_stride), b.add(j0, ir.Constant(_I64, v * LANES)))])
                for o in outputs
                for v in range(vectors)
            ]
            gs = [b.gep(g_data, [b.mul(o, g_column)]) for o in outputs]
            starts = [_splat(b, b.load(b.gep(base_data, [o]))) for o in outputs for _ in range(vectors)]
            totals = [
                cgutils.alloca_once_value(b, b.fadd(_load(b, p), s)) for p, s in zip(places, starts, strict=True)
            ]
            masks = [_first(b, b.sub(n0, j0))] if vectors == 1 else [None] * vectors
            with cgutils.for_range(b, m0, intp=_I64) as loop:
                row = b.sext(b.load(b.gep(rows_data, [loop.index])), _I64)
                here = b.gep(x_data, [b.add(b.mul(row, x_stride), j0)])
                values = [
                    _load(b, b.gep(here, [ir.Constant(_I64, v * LANES)]), mask) for v, mask in enumerate(masks)
                ]
                shift = b.mul(loop.index, g_row)
                for k, p in enumerate(gs):
                    factor = _splat(b, b.load(b.gep(p, [shift])))
                    for v, value in enumerate(values):
                        total = totals[k * vectors + v]
                        b.store(_muladd(b, factor, value, b.load(total)), total)
            for p, total in zip(places, totals, strict=True):
                _store(b, b.load(total), p)
            return context.get_dummy_value()

        i = types.int64
        return types.void(x, rows, i, i, g, i, i, base, w, i, i), build

    return tile


@intrinsic  # type: ignore[untyped-decorator]
def exponentials(typing: Any, z: Any) -> Any:
    """Replace all entries of z (rows padded to LANES, values ≤ 0) by their exponentials, to two units in the last place.

    exp(v) = 2^k · p(v − k·ln 2) with k the nearest integer to v / ln 2; below −60 the result is exp(−60), which is as good
    as 0 for a share and, times a step, not yet subnormal (and slow).
    """

    def build(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        array = context.make_array(z)(context, b, args[0])
        many = ir.VectorType(ir.IntType(32), LANES)

        def number(v: float) -> ir.Value:
            return ir.Constant(_VEC, [v] * LANES)

        size = b.mul(*cgutils.unpack_tuple(b, array.shape))
        width = ir.Constant(_I64, LANES)
        with cgutils.for_range_slice(b, ir.Constant(_I64, 0), size, width, _I64) as (j, _):
            place = b.gep(array.data, [j])
            # max(NaN, -60) may be either: a broken model must show, so NaN is kept by comparing the other way round.
            v = _load(b, place)
            v = b.select(b.fcmp_ordered("<", v, number(-60.0)), number(-60.0), v)
            k = _call(b, f"llvm.rint.v{LANES}f32", _VEC, b.fmul(v, number(1.4426950408889634)))
            rest = _muladd(b, k, number(-0.693359375), v)
            rest = _muladd(b, k, number(2.12194440054690583e-4), rest)
            series = number(1 / 5040)
            for term in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
                series = _muladd(b, series, rest, number(term))
            power = b.shl(b.add(b.fptosi(k, many), ir.Constant(many, [127] * LANES)), ir.Constant(many, [23] * LANES))
            _store(b, b.fmul(series, b.bitcast(power, _VEC)), place)
        return context.get_dummy_value()

    return types.void(z), build


_dot_10, _dot_5, _dot_2, _dot_1 = (_dot_tile(_ABREAST, outs) for outs in (10, 5, 2, 1))
_dot_10_one, _dot_5_one, _dot_2_one, _dot_1_one = (_dot_tile(1, outs) for outs in (10, 5, 2, 1))
_pile_10, _pile_5, _pile_2, _pile_1 = (_pile_tile(outs, _ABREAST) for outs in (10, 5, 2, 1))
_pile_10_one, _pile_5_one, _pile_2_one, _pile_1_one = (_pile_tile(outs, 1) for outs in (10, 5, 2, 1))
_TWO = _ABREAST


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def dots(x, rows, m, n, w, outs, z):  # type: ignore[no-untyped-def]
    """z[r, c] = Σ_{j<n} x[rows[r], j] · w[c, j] for r < m, c < outs; z needs LANES columns more than ``outs``."""
    c = 0
    paired = m - m % _TWO
    while c < outs:
        left = outs - c
        # Wider tiles first: the LANES entries that each writes are then overwritten by the next, never the other way.
        if left >= 10:
            for r in range(0, paired, _TWO):
                _dot_10(x, rows, r, n, w, c, z)
            for r in range(paired, m):
                _dot_10_one(x, rows, r, n, w, c, z)
            c += 10
        elif left >= 5:
            for r in range(0, paired, _TWO):
                _dot_5(x, rows, r, n, w, c, z)
            for r in range(paired, m):
                _dot_5_one(x, rows, r, n, w, c, z)
            c += 5
        elif left >= 2:
            for r in range(0, paired, _TWO):
                _dot_2(x, rows, r, n, w, c, z)
            for r in range(paired, m):
                _dot_2_one(x, rows, r, n, w, c, z)
            c += 2
        else:
            for r in range(0, paired, _TWO):
                _dot_1(x, rows, r, n, w, c, z)
            for r in range(paired, m):
                _dot_1_one(x, rows, r, n, w, c, z)
            c += 1


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def pile(x, rows, m, n, g, gr, gc, base, w, outs):  # type: ignore[no-untyped-def]
    """w[c, j] += base[c] + Σ_{r<m} g.flat[r·gr + c·gc] · x[rows[r], j] for c < outs, j < n."""
    step = _TWO * LANES
    whole = n - n % step
    c = 0
    while c < outs:
        left = outs - c
        if left >= 10:
            for j in range(0, whole, step):
                _pile_10(x, rows, m, n, g, gr, gc, base, w, c, j)
            for j in range(whole, n, LANES):
                _pile_10_one(x, rows, m, n, g, gr, gc, base, w, c, j)
            c += 10
        elif left >= 5:
            for j in range(0, whole, step):
                _pile_5(x, rows, m, n, g, gr, gc, base, w, c, j)
            for j in range(whole, n, LANES):
                _pile_5_one(x, rows, m, n, g, gr, gc, base, w, c, j)
            c += 5
        elif left >= 2:
            for j in range(0, whole, step):
                _pile_2(x, rows, m, n, g, gr, gc, base, w, c, j)
            for j in range(whole, n, LANES):
                _pile_2_one(x, rows, m, n, g, gr, gc, base, w, c, j)
            c += 2
        else:
            for j in range(0, whole, step):
                _pile_1(x, rows, m, n, g, gr, gc, base, w, c, j)
            for j in range(whole, n, LANES):
                _pile_1_one(x, rows, m, n, g, gr, gc, base, w, c, j)
            c += 1
