"""Softmax of a row of logits, with an exponential of its own: the C library does one number at a time."""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from hcsfed.clients.fused.vectors import (
    I32,
    I64,
    LANES,
    VEC,
    call,
    first_lanes,
    fold,
    load,
    muladd,
    number,
    plane,
    splat,
    store,
)


def _exp(b: ir.IRBuilder, v: ir.Value) -> ir.Value:
    """exp(v) = 2^k · p(v − k·ln 2) for v ≤ 0, k the nearest integer to v / ln 2; to two units in the last place.

    Below −60 it is exp(−60): as good as 0 in a share and, times a step, not yet subnormal (and slow).
    """
    many = ir.VectorType(I32, LANES)
    v = b.select(b.fcmp_ordered("<", v, number(-60.0)), number(-60.0), v)  # NaN is not less: it stays
    k = call(b, f"llvm.rint.v{LANES}f32", VEC, b.fmul(v, number(1.4426950408889634)))
    rest = muladd(b, k, number(-0.693359375), v)  # ln 2 in two parts, the first exact
    rest = muladd(b, k, number(2.12194440054690583e-4), rest)
    series = number(1 / 5040)
    for term in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
        series = muladd(b, series, rest, number(term))
    # Saturating, so that NaN is defined: plain fptosi may make anything of it.
    whole = call(b, f"llvm.fptosi.sat.v{LANES}i32.v{LANES}f32", many, k)
    power = b.shl(b.add(whole, ir.Constant(many, [127] * LANES)), ir.Constant(many, [23] * LANES))
    return b.fmul(series, b.bitcast(power, VEC))


def _larger(b: ir.IRBuilder, u: ir.Value, v: ir.Value) -> ir.Value:
    return b.select(b.fcmp_ordered(">", u, v), u, v)


@intrinsic
def softmax(typing: Any, z: Any, m: Any, n: Any, factor: Any, top: Any, mass: Any) -> Any:
    """For r < m: top[r] = max_c z[r, c], mass[r] = Σ_c exp(z[r, c] − top[r]), over c < n, and z[r, c] becomes
    factor · exp(z[r, c] − top[r]) / mass[r]; entries from n to the end of the last vector become 0.
    """

    def build(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        data, stride = plane(context, b, z, args[0])
        top_data, mass_data = (context.make_array(top)(context, b, args[k]).data for k in (4, 5))
        zero, width = ir.Constant(I64, 0), ir.Constant(I64, LANES)
        lowest = number(-3e38)

        # Three walks, each short enough for the processor to work at several rows at once.
        with cgutils.for_range(b, args[1], intp=I64) as row:
            start = b.gep(data, [b.mul(row.index, stride)])
            highest = cgutils.alloca_once_value(b, lowest)
            b.store(lowest, highest)
            with cgutils.for_range_slice(b, zero, args[2], width, I64) as (j, _):
                v = b.select(first_lanes(b, b.sub(args[2], j)), load(b, b.gep(start, [j])), lowest)
                b.store(_larger(b, v, b.load(highest)), highest)
            b.store(fold(b, b.load(highest), _larger), b.gep(top_data, [row.index]))
        with cgutils.for_range(b, args[1], intp=I64) as row:
            start = b.gep(data, [b.mul(row.index, stride)])
            peak = splat(b, b.load(b.gep(top_data, [row.index])))
            total = cgutils.alloca_once_value(b, number(0.0))
            b.store(number(0.0), total)
            with cgutils.for_range_slice(b, zero, args[2], width, I64) as (j, _):
                place = b.gep(start, [j])
                power = _exp(b, b.fsub(load(b, place), peak))
                power = b.select(first_lanes(b, b.sub(args[2], j)), power, number(0.0))
                store(b, power, place)
                b.store(b.fadd(b.load(total), power), total)
            b.store(fold(b, b.load(total), ir.IRBuilder.fadd), b.gep(mass_data, [row.index]))
        with cgutils.for_range(b, args[1], intp=I64) as row:
            start = b.gep(data, [b.mul(row.index, stride)])
            ratio = splat(b, b.fdiv(args[3], b.load(b.gep(mass_data, [row.index]))))
            with cgutils.for_range_slice(b, zero, args[2], width, I64) as (j, _):
                place = b.gep(start, [j])
                store(b, b.fmul(load(b, place), ratio), place)
        return context.get_dummy_value()

    return types.void(z, types.int64, types.int64, types.float32, top, mass), build
