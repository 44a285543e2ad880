"""The paper's remark on other groups (Sₙ, Aₙ, Dₙ) as a table: counting with each of those that there are."""

from pggnn.paper.rows import Row, Table

SMALL = (
    *("--model.hidden", "32", "--model.layers", "1", "--model.rnn_layers", "1", "--model.max_degree", "5"),
    *("--optim.batch_size", "64", "--optim.sampling", "shuffle", "--optim.epochs", "60", "--optim.lr", "0.01"),
    *("--optim.schedule", "cosine", "--protocol.seeds", "[0, 1]"),
)


def _row(group: str, *more: str) -> Row:
    return Row((*SMALL, "--model.group", group, *more), None)


TABLE = Table(
    "Counting triangles by the group of orders in which neighbours are read: mean absolute error",
    {"ER triangles": "er_triangles"},
    {
        "PG-GNN (trivial)": _row("trivial"),
        "PG-GNN (random)": _row("pairs", "--model.orderings", "random"),
        "PG-GNN (pairs)": _row("pairs"),
        "PG-GNN (dihedral)": _row("dihedral"),
        "PG-GNN (all)": _row("all"),
    },
    ("--optim.epochs", "10", "--protocol.seeds", "[0]"),
    None,
    (
        "One layer of 32 channels, 60 epochs. A node reads at most five neighbours, as every order of more would be "
        "too many: 2.5 % of the nodes have more, in all rows alike.",
        "Orders of five neighbours: trivial 1, random 1 fresh one in each training step, pairs (the paper's) 4, "
        "dihedral 10, all 120. Of n: 1, 1, n or n − 1, 2n, n!. There is no alternating group here; it has n!/2.",
        "Published graphs and splits; test at the best validation epoch. The paper has no such figures.",
    ),
)
