"""Molecules by what a layer reads: ZINC, ogbg-molhiv and Peptides-func, beyond the paper."""

from pggnn.paper.rows import Row, Table

ZINC = ("ZINC",)
GIN = ("--model.name", "gin", "--model.hidden", "94")
WALKS = ("--data.walks", "20")
SMALL, NO_BONDS = ("--model.hidden", "29"), ("--model.edge_features", "false")
SHORT, LONG = ("--optim.epochs", "80"), ("--optim.epochs", "2000")
SHORT_NOTE = "Short: 80 epochs, in which the cosine runs to its end; rows that name no number have 500 on ZINC."
LONG_NOTE = "Long: 2000 epochs."


def _short(*options: str) -> Row:
    return Row((*options, *SHORT), None, ZINC, note=SHORT_NOTE)


TABLE = Table(
    "Molecules by what a layer reads: MAE (ZINC), AUROC (molhiv), AP (Peptides)",
    {"ZINC": "zinc_rings", "MOLHIV": "molhiv", "PEPTIDES": "peptides"},
    {
        "PG-GNN (sum, rings)": Row(published=None),
        "GIN": Row(GIN, None),
        "GIN (200 epochs)": Row((*GIN, "--optim.epochs", "200"), None, ZINC),
        "PG-GNN (sum, rings, walks)": Row(WALKS, None, ZINC),
        "PG-GNN (sum, rings, walks, long)": Row((*WALKS, *LONG), None, ZINC, note=LONG_NOTE),
        "GIN (walks)": Row((*GIN, *WALKS), None, ZINC),
        "PG-GNN (sum, rings, 100k)": Row(SMALL, None, ZINC),
        "PG-GNN (sum, rings, walks, 100k)": Row((*SMALL, *WALKS), None, ZINC),
        "PG-GNN (sum, rings, no bonds)": Row(NO_BONDS, None, ZINC),
        "PG-GNN (sum, rings, walks, no bonds)": Row((*NO_BONDS, *WALKS), None, ZINC),
        "PG-GNN (sum, rings, short)": _short(),
        "PG-GNN (sum, rings, walks, short)": _short(*WALKS),
        "PG-GNN (sum, ring sets, short)": _short("--model.reads", "[sum, ring-sets]"),
        "PG-GNN (sum, rings one way, short)": _short("--model.reads", "[sum, rings-one-way]"),
        "PG-GNN (star, rings, short)": _short("--model.reads", "[star, rings]", "--model.hidden", "56"),
        "PG-GNN (all, rings, short)": _short(
            *("--model.reads", "[star, rings]", "--model.hidden", "56", "--model.group", "all")
        ),
        "PG-GNN (star, short)": _short("--model.reads", "[star]", "--model.hidden", "73"),
        "GIN (short)": _short(*GIN),
        "GIN (walks, short)": _short(*GIN, *WALKS),
    },
    (
        *("--optim.epochs", "4", "--optim.warmup", "1", "--optim.sampling", "draws", "--optim.steps", "20"),
        *("--model.layers", "2", "--protocol.seeds", "[0]"),
    ),
    ZINC,
    (
        "Published splits; test at the best validation epoch. All rows have the same recipe and, but for the rows "
        "of 100,000, about as many parameters. The paper has no such figures.",
        "Sum: neighbours by a plain sum, as in GIN. Star: neighbours by the RNN in the paper's group; all: in "
        "every order. Rings: each is read by the RNN from each member in both directions. One way: in one. Sets: "
        "the RNN reads the mean over the ring instead of its members. Walks: 20 features of random walks.",
    ),
)
