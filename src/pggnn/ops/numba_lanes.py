"""Eight float32 at a time in Numba's language: ``x * y + z`` of such lanes is a vector instruction or two.

LLVM vectorises a loop over channels only where it can tell that its arrays lie apart. Here the code says so.
"""

import operator

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model

LANES = 8
FLOATS, WHOLE = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(ir.IntType(32), LANES)
FUSED = ("contract",)
"""A product and a sum may become one instruction."""


class Lanes(types.Type):
    """The type of :data:`LANES` float32."""

    def __init__(self):
        super().__init__(name="Lanes")


lanes = Lanes()


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, FLOATS)


def constant(value, kind=FLOATS):
    return ir.Constant(kind, [value] * LANES)


def _address(builder, address, index):
    pointer = builder.inttoptr(address, ir.FloatType().as_pointer())
    return builder.bitcast(builder.gep(pointer, [index]), FLOATS.as_pointer())


@intrinsic
def load(_, address, index):
    """The lanes at the index-th float32 of an address."""

    def generate(context, builder, signature, arguments):
        return builder.load(_address(builder, *arguments), align=4)

    return lanes(types.int64, types.int64), generate


@intrinsic
def store(_, address, index, value):
    def generate(context, builder, signature, arguments):
        builder.store(arguments[2], _address(builder, *arguments[:2]), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, lanes), generate


@intrinsic
def splat(_, value):
    """A number in all lanes."""

    def generate(context, builder, signature, arguments):
        one = builder.insert_element(ir.Constant(FLOATS, ir.Undefined), arguments[0], ir.IntType(32)(0))
        return builder.shuffle_vector(one, ir.Constant(FLOATS, ir.Undefined), constant(0, WHOLE))

    return lanes(types.float32), generate


def _arithmetic(function, name):
    @intrinsic
    def combine(_, left, right):
        def generate(context, builder, signature, arguments):
            return getattr(builder, name)(*arguments, flags=FUSED)

        return lanes(lanes, lanes), generate

    @overload(function)
    def implementation(left, right):
        if isinstance(left, Lanes) and isinstance(right, Lanes):
            return lambda left, right: combine(left, right)


for _function, _name in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _arithmetic(_function, _name)


@intrinsic
def relu(_, x):
    """The lanes, 0 where they are negative; NaN stays."""

    def generate(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered("<", arguments[0], constant(0.0)), constant(0.0), arguments[0])

    return lanes(lanes), generate


@intrinsic
def where_positive(_, x, y):
    """The lanes of x, 0 where those of y are not positive."""

    def generate(context, builder, signature, arguments):
        x, y = arguments
        return builder.select(builder.fcmp_ordered("<=", y, constant(0.0)), constant(0.0), x)

    return lanes(lanes, lanes), generate


@intrinsic
def sigmoid(_, x):
    """To a relative 2e-7, and 0 below 1e-37: 1 / (1 + exp(−x)), exp(y) = 2ᵏ exp(r), a polynomial for |r| ≤ ln 2 / 2."""

    def generate(context, builder, signature, arguments):
        def add(x, y):
            return builder.fadd(x, y, flags=FUSED)

        def times(x, y):
            return builder.fmul(x, constant(y) if isinstance(y, float) else y, flags=FUSED)

        y = builder.fneg(arguments[0])
        vanishes = builder.fcmp_ordered(">", y, constant(87.0))
        y = builder.select(vanishes, constant(87.0), y)
        y = builder.select(builder.fcmp_ordered("<", y, constant(-87.0)), constant(-87.0), y)
        rounding = constant(12582912.0)  # 1.5 · 2²³ has no room for a fraction
        k = builder.fsub(builder.fadd(builder.fmul(y, constant(1.44269504)), rounding), rounding)
        r = add(add(y, times(k, -0.693359375)), times(k, 2.12194440e-4))
        p = constant(1.9875691500e-4)
        for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1.0, 1.0):
            p = add(times(p, r), constant(c))
        bits = builder.shl(builder.add(builder.fptosi(k, WHOLE), constant(127, WHOLE)), constant(23, WHOLE))
        result = builder.fdiv(constant(1.0), add(times(p, builder.bitcast(bits, FLOATS)), constant(1.0)))
        return builder.select(vanishes, constant(0.0), result)

    return lanes(lanes), generate
