"""Bytes that a step of a sequence moves through the GPU's memory, counted from the algorithm, in multiples of H.

Numbers have two bytes unless said otherwise, so a state of a layer is 2 H, its four gates are 8 H. What stays in
registers, shared memory or the cache is not counted: weights, and the gate rows of the nodes, which all
sequences read (17 MB at hidden 64, 34 MB at hidden 128, in a cache of 50 MB).
"""

Bytes = dict[str, float]
PEAK = 989.0, 4.8
"""TFLOP/s of dense bfloat16 products, and TB/s, of an H200 as specified."""
DEGREE = 8
STEPS = DEGREE + 2
FLOP = {"forward": 24, "training": 72}
"""Operations of a step with 2 layers of an LSTM, in units of H²."""
FORWARD: Bytes = {
    "states of the lower layer, written and read": 2 + 2,
    "last states in float32, written and read once a sequence": (4 + 4) / STEPS,
}
PRODUCT: Bytes = {"input of the upper layer as a product of its own, written and read": 8 + 8}
PRODUCT_BACKWARD: Bytes = PRODUCT | {"gradients of the gates read for the product with the weights": 8}
"""Where the upper layer's weights for its input do not fit beside those for its state (hidden 128)."""
BACKWARD: Bytes = {
    "both layers run again: gates, states and cells written": 2 * (8 + 2 + 2),
    "states of the lower layer read": 2,
    "both layers backward: gates and cells read, gradients of the gates written": 2 * (8 + 2 + 8),
    "gradient of the lower layer's states, written and read": 2 + 2,
    "gradients of the weights: those of the gates, own and lower states read": 2 * (8 + 2) + 2,
    "gradients of the gate rows: those of the gates read": 8,
    "their sums in float32, added once a slot": (DEGREE + 1) / (DEGREE * STEPS) * (16 + 16),
}
CUDNN_FORWARD: Bytes = {"each layer: input read, its product written and read, states written": 2 * (2 + 16 + 2)}
CUDNN_BACKWARD: Bytes = {
    "each layer: gates and cells written and read": 2 * 2 * (8 + 2),
    "gradients of the gates written, read for input and weights": 2 * (8 + 2 * 8),
    "gradient of the input written, input and states read": 2 * (2 + 2 + 2),
}
"""cuDNN at the least: what it does inside is not known."""
COUNTED = (
    "Bytes are counted from the algorithm (benchmarks/roofline.py), those of cuDNN at the least; operations are\n"
    "24 H² a step forward and 72 H² in training, for both."
)


def bytes_moved(hidden: int, what: str) -> float:
    """Bytes of a step with 2 layers of an LSTM; ``what`` is ``"ours forward"``, ``"cuDNN training"``, …"""
    whose, name = what.split()
    if whose == "cuDNN":
        parts = [CUDNN_FORWARD, CUDNN_BACKWARD]
    elif hidden <= 64:
        parts = [FORWARD, BACKWARD]
    else:
        parts = [FORWARD | PRODUCT, BACKWARD | PRODUCT_BACKWARD]
    parts = parts[:1] if name == "forward" else parts
    return hidden * sum(sum(part.values()) for part in parts)


def intensity(hidden: int, what: str) -> float:
    """Operations for each byte moved."""
    return FLOP[what.split()[1]] * hidden**2 / bytes_moved(hidden, what)
