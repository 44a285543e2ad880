"""The cells' pointwise maths inside the kernels, forward and backward, on one layer and step."""

import triton
import triton.language as tl


@triton.jit
def tanh(x, FAST: tl.constexpr):
    """``FAST`` is one instruction with an error of 2⁻¹¹, below what 16-bit operands lose anyway."""
    if FAST:
        return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def sigmoid(half, FAST: tl.constexpr):
    """The sigmoid of twice its argument."""
    if FAST:
        return 0.5 * tanh(half, FAST) + 0.5
    else:
        return tl.sigmoid(2 * half)


@triton.jit
def activation(x, CELL: tl.constexpr, FAST: tl.constexpr):
    """What a simple cell makes of its gate."""
    if CELL == "srn":
        return tanh(x, FAST)
    elif CELL == "srn-relu":
        return tl.maximum(x, 0)
    else:
        return x


@triton.jit
def activation_slope(h, CELL: tl.constexpr):
    """The derivative of :func:`activation`, from its value."""
    if CELL == "srn":
        return 1 - h * h
    elif CELL == "srn-relu":
        return tl.where(h > 0, 1.0, 0.0)
    else:
        return h * 0 + 1
