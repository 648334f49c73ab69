"""Vectors of floats as LLVM knows them, and what the kernels do with them.

Loops in Python leave the width and the registers to the compiler's taste; here both are said. Everything takes the
builder ``b`` that writes the code, and values of that code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numba
from numba.core import cgutils

_WIDE = "+avx512f" in (numba.config.CPU_FEATURES or llvm.get_host_cpu_features().flatten()).split(",")
LANES = 16 if _WIDE else 8
"""Floats in a vector."""
ABREAST = 2 if _WIDE else 1
"""Vectors that meet a tile at once: 32 registers hold twice what 16 do."""
PADDING = ABREAST * LANES
"""Rows of float arrays that a tile writes to are padded to a multiple of this."""

F32 = ir.FloatType()
I32 = ir.IntType(32)
I64 = ir.IntType(64)
VEC = ir.VectorType(F32, LANES)


def number(value: float) -> ir.Constant:
    """The same number in all lanes."""
    return ir.Constant(VEC, [value] * LANES)


def splat(b: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    """A value in all lanes."""
    kind = ir.VectorType(scalar.type, LANES)
    nothing = ir.Constant(kind, ir.Undefined)
    one = b.insert_element(nothing, scalar, ir.Constant(I32, 0))
    return b.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def call(b: ir.IRBuilder, name: str, result: ir.Type, *args: ir.Value) -> ir.Value:
    """Call one of LLVM's intrinsics."""
    kind = ir.FunctionType(result, [a.type for a in args])
    return b.call(cgutils.get_or_insert_function(b.module, kind, name), args)


def muladd(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """The value x · y + z, rounded once where the processor can."""
    return call(b, f"llvm.fmuladd.v{LANES}f32", VEC, x, y, z)


def load(b: ir.IRBuilder, pointer: ir.Value, mask: ir.Value | None = None) -> ir.Value:
    """LANES neighbours from here, as floats; where a mask is given, 0 for the lanes outside it."""
    kind = ir.VectorType(pointer.type.pointee, LANES)
    pointer = b.bitcast(pointer, kind.as_pointer())
    if mask is None:
        raw = b.load(pointer, align=1)
    else:
        letter = "f32" if kind.element == F32 else "i8"
        name = f"llvm.masked.load.v{LANES}{letter}.p0"
        raw = call(b, name, kind, pointer, ir.Constant(I32, 1), mask, ir.Constant(kind, None))
    return raw if kind == VEC else b.uitofp(raw, VEC)


def store(b: ir.IRBuilder, value: ir.Value, pointer: ir.Value) -> None:
    """Write LANES neighbours from here."""
    b.store(value, b.bitcast(pointer, VEC.as_pointer()), align=4)


def first_lanes(b: ir.IRBuilder, count: ir.Value) -> ir.Value:
    """The mask of the first ``count`` lanes."""
    lanes = ir.Constant(ir.VectorType(I64, LANES), list(range(LANES)))
    return b.icmp_signed("<", lanes, splat(b, count))


def sums(b: ir.IRBuilder, vectors: list[ir.Value]) -> ir.Value:
    """Lane k of the result is the sum of the lanes of vector k (0 where there is none): halve and join, log₂ times."""
    zero = ir.Constant(VEC, None)
    level = [*vectors, *[zero] * (LANES - len(vectors))]
    groups = 1
    while len(level) > 1:
        half = LANES // groups // 2
        low = [2 * half * g + t for g in range(groups) for t in range(half)]
        picks = low + [LANES + i for i in low]
        kind = ir.VectorType(I32, LANES)
        left, right = ir.Constant(kind, picks), ir.Constant(kind, [i + half for i in picks])
        level = [
            b.fadd(b.shuffle_vector(u, v, left), b.shuffle_vector(u, v, right))
            if u is not zero or v is not zero
            else zero
            for u, v in zip(level[::2], level[1::2], strict=True)
        ]
        groups *= 2
    return level[0]


def fold(b: ir.IRBuilder, v: ir.Value, join: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """All lanes joined into one value, half with half."""
    half = LANES // 2
    while half:
        picks = [(i + half) % LANES for i in range(LANES)]
        v = join(b, v, b.shuffle_vector(v, v, ir.Constant(ir.VectorType(I32, LANES), picks)))
        half //= 2
    return b.extract_element(v, ir.Constant(I32, 0))


def plane(context: Any, b: ir.IRBuilder, kind: Any, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Pointer to the first element of a two-dimensional array, and the elements in one of its rows."""
    array = context.make_array(kind)(context, b, value)
    return array.data, cgutils.unpack_tuple(b, array.shape)[1]
