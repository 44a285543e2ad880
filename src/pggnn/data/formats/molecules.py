"""Molecules from a table: a column of SMILES, and targets beside it. RDKit makes the graphs.

Atoms and bonds are described by :data:`ATOM` and :data:`BOND`, each a block of one-hot columns. R and S, E and Z do not
depend on how the SMILES is written, as ``@`` and ``/`` do. Hydrogens are counted, and are no nodes unless the SMILES
needs them. A salt is one graph of several parts.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pggnn.data.dataset import GraphDataset, Transform
from pggnn.data.formats.tables import CsvTable, as_targets, infer_targets, is_gap, read_table, read_target
from pggnn.data.formats.validation import MOST_PROBLEMS, InvalidFile, Problem, describe
from pggnn.data.graphs import Graphs, compact
from pggnn.data.schema import SPLITS, Schema

Blocks = dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]]
ATOM: Blocks = {
    "element": (lambda atom: atom.GetAtomicNum(), (*range(1, 37), 53)),
    "neighbours": (lambda atom: atom.GetTotalDegree(), (0, 1, 2, 3, 4, 5)),
    "hydrogens": (lambda atom: atom.GetTotalNumHs(), (0, 1, 2, 3, 4)),
    "charge": (lambda atom: atom.GetFormalCharge(), (-2, -1, 0, 1, 2)),
    "hybridisation": (lambda atom: atom.GetHybridization().name, ("SP", "SP2", "SP3", "SP3D", "SP3D2")),
    "stereo": (lambda atom: atom.GetProp("_CIPCode") if atom.HasProp("_CIPCode") else "", ("R", "S")),
    "aromatic": (lambda atom: atom.GetIsAromatic(), (True,)),
    "in a ring": (lambda atom: atom.IsInRing(), (True,)),
}
"""What is known of an atom, and the values that have a column; a last column of each block stands for all others."""
BOND: Blocks = {
    "kind": (lambda bond: bond.GetBondType().name, ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")),
    "stereo": (lambda bond: bond.GetStereo().name, ("STEREOE", "STEREOZ")),
    "conjugated": (lambda bond: bond.GetIsConjugated(), (True,)),
    "in a ring": (lambda bond: bond.IsInRing(), (True,)),
}
SPLIT = "split"
"""The column that says which rows train, validate and test."""
PARTS = {name: name for name in SPLITS} | {"valid": "val", "validation": "val", "training": "train"}
"""What it may say, in small letters."""
MOST_LINES = 5
FIRST = 20
"""Rows that must be SMILES where no column is named so."""


def load_molecules(
    path: str | Path,
    schema: Schema | None = None,
    target: str | Sequence[str] | None = (),
    smiles: str | None = None,
    skip_invalid: bool = False,
    scaffolds: bool = False,
    split: str | None = None,
    transform: Transform = None,
    pre_transform: Transform = None,
) -> GraphDataset:
    """The molecules of a CSV file, as :func:`read_molecules` reads them.

    Args:
        path, schema, target, smiles, skip_invalid, scaffolds: See :func:`read_molecules`.
        split, transform, pre_transform: See :class:`GraphDataset`.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> from pggnn.data.formats.molecules import load_molecules
        >>> file = Path(mkdtemp()) / "molecules.csv"
        >>> _ = file.write_text("smiles,solubility\\nc1ccoc1,-0.82\\nCI,-1.00\\n")
        >>> load_molecules(file, target="solubility")[0].y
        tensor([-0.8200])
    """
    graphs, table, left_out = read_molecules(path, schema, target, smiles, skip_invalid, scaffolds)
    dataset = GraphDataset(graphs, split=split, transform=transform, pre_transform=pre_transform)
    dataset.table, dataset.left_out = table, left_out
    return dataset


def read_molecules(
    path: str | Path,
    schema: Schema | None = None,
    target: str | Sequence[str] | None = (),
    smiles: str | None = None,
    skip_invalid: bool = False,
    scaffolds: bool = False,
) -> tuple[Graphs, CsvTable, dict[int, str]]:
    """The molecules of a CSV file, its table, and why rows of that are left out, by their numbers.

    Args:
        path: The file. Its first row names the columns. One named split, if there is any, has train, val or test.
        schema: That of an earlier file, whose targets are then read if the file has them.
        target: The columns to predict. A cell may be empty. None for no targets, whatever the schema has.
        smiles: The column of SMILES; by default the one that is named so, or the only one that can be read as such.
        skip_invalid: Leaves out rows that cannot be read. By default they are an :class:`InvalidFile`, each with its
            line and the reason.
        scaffolds: Whether to number the molecules' Murcko scaffolds, as ``scaffold``, for a split by them.
    """
    table = read_table(path)
    names = [target] if isinstance(target, str) else list(target or ())
    if schema is None:
        schema = infer_targets(table, names) if names else Schema()
    elif target is None or not set(schema.targets) <= set(table.header):
        schema = replace(schema, level=None)  # there is nothing to read; the task is known all the same
    written = table.column(smiles or find_smiles(table))
    given = next((name for name in table.header if name.lower() == SPLIT), None)
    splits = None if given is None else [PARTS.get(cell.lower(), cell) for cell in table.column(given)]
    wanted = schema.targets if schema.level else ()
    targets = [*zip(*(table.targets(name) for name in wanted), strict=True)] if wanted else [()] * len(table.rows)
    of_atoms, of_bonds = Encoder(ATOM), Encoder(BOND)
    atoms: list[int] = []
    bonds: list[int] = []
    ends: list[tuple[int, int]] = []
    sizes: list[tuple[int, int]] = []
    y: list[list[float]] = []
    kept: list[int] = []
    said: dict[int, str] = {}
    groups: dict[str, int] = {}
    group: list[int] = []
    for number, (text, cells) in enumerate(zip(written, targets, strict=True)):
        try:
            if splits and splits[number] not in SPLITS:
                raise Problem(f"{SPLIT}: expected train, val or test, found {describe(splits[number])}")
            molecule = read_smiles(text)
            row = [_named(name, cell, schema) for name, cell in zip(wanted, cells, strict=True)]
        except Problem as problem:
            said[number] = str(problem)
            continue
        atoms += of_atoms.number(molecule.GetAtoms())
        bonds += of_bonds.number(molecule.GetBonds())
        ends += [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
        sizes.append((molecule.GetNumAtoms(), 2 * molecule.GetNumBonds()))
        y.append(row)
        kept.append(number)
        if scaffolds:
            group.append(groups.setdefault(scaffold(molecule), len(groups)))
    problems = [f"line {table.lines[number]}, {why}" for number, why in said.items()]
    if problems and not (skip_invalid and kept):
        more = len(problems) > MOST_PROBLEMS
        hint = "" if skip_invalid else "--skip-invalid (of pggnn train: --data.skip-invalid) goes on without such rows"
        raise InvalidFile(path, problems[:MOST_PROBLEMS], more, hint)
    edges = np.array(ends, np.int64).reshape(-1, 1, 2)
    graph = ({"y": as_targets(y, schema)} if wanted else {}) | ({"scaffold": torch.tensor(group)} if scaffolds else {})
    places = {name: [i for i, row in enumerate(kept) if splits and splits[row] == name] for name in SPLITS}
    graphs = Graphs(
        torch.tensor([nodes for nodes, _ in sizes]),
        torch.tensor([directed for _, directed in sizes]),
        compact(np.concatenate([edges, edges[:, :, ::-1]], axis=1).reshape(-1, 2).T),
        {"x": of_atoms.columns(atoms)},
        {"edge_attr": of_bonds.columns(bonds).repeat_interleave(2, dim=0)},
        graph,
        replace(schema, features=of_atoms.width, edge_features=of_bonds.width),
        {name: torch.tensor(rows) for name, rows in places.items() if rows},
    )
    return graphs.checked(str(path)), table, said


def find_smiles(table: CsvTable) -> str:
    """The column of SMILES: the one that is named so, else the only one whose first cells are."""
    named = [name for name in table.header if "smiles" in name.lower()]
    if not named:
        some = table.select(range(min(FIRST, len(table.rows))))
        named = [name for name in table.header if all(map(_is_smiles, some.column(name)))]
    if len(named) != 1:
        which = f"it may be {' or '.join(map(repr, named))}" if named else f"its columns are {table.columns}"
        raise ValueError(
            f"{table.path}: which column has the SMILES? Name it by --smiles (of pggnn train: --data.smiles); {which}"
        )
    return named[0]


def read_smiles(text: str) -> Any:
    """The molecule that a SMILES describes, or a :class:`Problem`."""
    chem, silent = _rdkit()
    if is_gap(text):
        raise Problem("the SMILES is missing")
    shown = f"the SMILES '{' '.join(text.split())[:80]}'"
    with silent():
        molecule = chem.MolFromSmiles(text)
        if molecule is None:
            drawn = chem.MolFromSmiles(text, sanitize=False)
            problems = [] if drawn is None else chem.DetectChemistryProblems(drawn)
            why = problems[0].Message() if problems else "it is not valid SMILES"
            raise Problem(f"{shown} cannot be read: {why}")
    if molecule.GetNumAtoms() == 0:
        raise Problem(f"{shown} has no atom")
    return molecule


class Encoder:
    """Numbers the different atoms, or bonds, as they come, of which there are few; and knows their columns."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks, self._numbers = blocks, dict[tuple[Any, ...], int]()
        self.width = sum(len(values) + 1 for _, values in blocks.values())

    def number(self, things: Iterable[Any]) -> list[int]:
        """The number of each."""
        readers, numbers = [get for get, _ in self._blocks.values()], self._numbers
        return [numbers.setdefault(tuple([get(thing) for get in readers]), len(numbers)) for thing in things]

    def columns(self, numbers: list[int]) -> Tensor:
        """``[N, width]`` the one-hot columns of so numbered ones."""
        known = torch.zeros(len(self._numbers), self.width, dtype=torch.uint8)
        for key, number in self._numbers.items():
            place = 0
            for value, (_, values) in zip(key, self._blocks.values(), strict=True):
                known[number, place + (values.index(value) if value in values else len(values))] = 1
                place += len(values) + 1
        return known[torch.tensor(numbers, dtype=torch.long)]


def scaffold(molecule: Any) -> str:
    """Rings and what joins them, without stereochemistry; empty for a molecule without rings."""
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    return str(MurckoScaffoldSmiles(mol=molecule))


def describe_molecules(
    table: CsvTable, left_out: Collection[int], smiles: str | None = None, targets: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """What chemists look out for, in words, and hints: salts, charges, single atoms, the same molecule twice.

    Args:
        table: The file.
        left_out: Numbers of rows that cannot be read.
        smiles, targets: Columns, see :func:`read_molecules`.
    """
    chem, _ = _rdkit()
    counts = Counter[str]()
    places: dict[str, list[int]] = {}
    for number, text in enumerate(table.column(smiles or find_smiles(table))):
        if number in left_out:
            continue
        molecule = read_smiles(text)
        counts["of several parts (salts, mixtures)"] += len(chem.GetMolFrags(molecule)) > 1
        counts["charged"] += chem.GetFormalCharge(molecule) != 0
        counts["of a single atom"] += molecule.GetNumAtoms() == 1
        places.setdefault(str(chem.MolToSmiles(molecule)), []).append(number)
    said = [f"{len(places):,} different ones", *(f"{count:,} {what}" for what, count in counts.items() if count)]
    repeated = [rows for rows in places.values() if len(rows) > 1]
    if not repeated:
        return ", ".join(said), []
    place = [table.header.index(name) for name in targets]
    unlike = [rows for rows in repeated if len({tuple(table.rows[row][i] for i in place) for row in rows}) > 1]
    said.append(f"{len(repeated):,} more than once")
    hints = [
        "A molecule that occurs more than once may train and test: --protocol.kind scaffold keeps its rows together."
    ]
    if unlike:
        said[-1] += f", {len(unlike):,} of them with other targets"
        lines = [", ".join(str(table.lines[row]) for row in rows[:MOST_LINES]) for rows in unlike[:MOST_LINES]]
        more = f" and {len(unlike) - MOST_LINES:,} more" if len(unlike) > MOST_LINES else ""
        hints.append(f"The same molecule has other targets: lines {'; '.join(lines)}{more}. Networks learn their mean.")
    return ", ".join(said), hints


def _named(name: str, cell: str, schema: Schema) -> float:
    try:
        return read_target(cell, schema)
    except Problem as problem:
        raise Problem(f"{name}: {problem}") from None


def _is_smiles(text: str) -> bool:
    try:
        return read_smiles(text) is not None
    except Problem:
        return False


@cache
def _rdkit() -> tuple[Any, Any]:
    try:
        from rdkit import Chem, rdBase
    except ModuleNotFoundError as error:
        said = "SMILES are read by RDKit, which is not installed: pip install 'pggnn[molecules]'"
        raise ModuleNotFoundError(said, name=error.name) from None
    return Chem, rdBase.BlockLogs
