"""Your own graphs as a JSON-lines file: one graph per line, each a JSON object.

    {"id": "water", "node_labels": ["O", "H", "H"], "edges": [[0, 1], [0, 2]], "y": -1.36, "split": "train"}

========================  =============================================================================================
``num_nodes``             how many nodes; may be left out where ``x`` or ``node_labels`` is given
``x``                     the features of each node: a list of numbers per node, of one length throughout the file
``node_labels``           a label per node, text or whole numbers; becomes one-hot columns after those of ``x``
``edges``                 pairs ``[source, target]`` of nodes, counted from 0; always given, ``[]`` if there are none
``directed``              false unless given: each edge is listed once and read both ways. If true, the list is taken
                          as it stands
``edge_attr``             the features of each listed edge, as ``x``
``edge_labels``           a label per listed edge, as ``node_labels``
``y``                     the graph's target, or a list of several
``node_y``                a target, or a list of several, for each node
``split``                 ``"train"``, ``"val"`` or ``"test"``
``id``                    text or a whole number, different for each graph
========================  =============================================================================================

Text and whole numbers as targets are classes, numbered in sorted order as labels are. If any target of the file is
written with a decimal point (``3.0``), they are all regression targets. Lists of targets are regression, or multilabel
if they hold nothing but 0 and 1. A node's neighbours are numbered in the order in which its edges are listed. An edge
that joins nodes already joined is an error unless ``directed``, for then all would be doubled.
"""

from collections.abc import Iterator
from pathlib import Path

from pggnn.data.dataset import GraphDataset, Transform
from pggnn.data.formats.agreement import expected, outline, unknown
from pggnn.data.formats.assembly import assemble
from pggnn.data.formats.validation import MOST_NODES, Problem, Record, check_graph, describe, read_line
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Name, Schema

MOST_PROBLEMS = 20
LONGEST_LINE = 128 * 2**20
GZIP = b"\x1f\x8b"


class InvalidFile(ValueError):
    """A file that cannot be read as graphs; :attr:`problems` says why, each with its place."""

    def __init__(self, path: str | Path, problems: list[str], more: bool):
        self.problems = problems
        count = f"{len(problems)}{' or more' * more} problem{'s' * (len(problems) > 1)}"
        super().__init__("\n  ".join([f"{path}: {count}", *problems]))


def load_jsonl(
    path: str | Path,
    schema: Schema | None = None,
    split: str | None = None,
    transform: Transform = None,
    pre_transform: Transform = None,
) -> GraphDataset:
    """Reads and checks a file of graphs; all its problems, up to 20, are in one :class:`InvalidFile`.

    Args:
        path: The file, in UTF-8.
        schema: That of an earlier file, if this one must be read alike: labels and classes get the same numbers,
            unknown ones are errors, and targets may be left out.
        split, transform, pre_transform: See :class:`GraphDataset`.
    """
    graphs, ids = read_jsonl(path, schema)
    dataset = GraphDataset(graphs, split=split, transform=transform, pre_transform=pre_transform)
    dataset.ids = ids
    return dataset


def read_jsonl(path: str | Path, schema: Schema | None = None) -> tuple[Graphs, list[Name] | None]:
    """The graphs of a file and their names, if it has any; see :func:`load_jsonl`."""
    records, problems, more = _read_records(path, schema)
    if not records and not problems:
        problems = ["the file holds no graph; expected one JSON object per line"]
    if problems:
        raise InvalidFile(path, problems, more)
    return assemble(str(path), records, schema), [record.id for record in records if record.id is not None] or None


def _read_records(path: str | Path, schema: Schema | None) -> tuple[list[Record], list[str], bool]:
    """The good graphs, what is wrong with the others, and whether there is more."""
    agreed = {key: ("the schema", said) for key, said in expected(schema).items()} if schema else {}
    records: list[Record] = []
    problems: list[str] = []
    ids: dict[Name, int] = {}
    nodes = 0
    for number, line in _lines(path):
        if len(problems) >= MOST_PROBLEMS:
            return records, problems[:MOST_PROBLEMS], True
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            if len(line) > LONGEST_LINE:
                raise Problem(f"a line may have {LONGEST_LINE >> 20} MiB; split the graph or leave out digits")
            graph = read_line(line)
        except Problem as problem:
            problems.append(f"{place}, {problem}")
            continue
        record, wrong = check_graph(graph)
        if record is not None:
            if schema and not records and record.level is None:
                agreed.pop("y", None)
                agreed.pop("node_y", None)
            for key, said in outline(record).items():
                where, others = agreed.setdefault(key, (place, said))
                if said != others:
                    hint = "; targets of nodes go to node_y" if key == "y" and "list" in said else ""
                    if key in ("y", "node_y") and record.level is None:
                        hint = "; give all graphs a target, or put those without one in a file of their own"
                    wrong.append(f"{key}: found {said}, but {where} has {others}{hint}")
            if record.id is not None and ids.setdefault(record.id, number) != number:
                wrong.append(f"id: line {ids[record.id]} has the same")
            nodes += record.num_nodes
            if nodes > MOST_NODES:
                wrong.append(f"a file may have {MOST_NODES} nodes, this graph is beyond")
            if schema:
                wrong += unknown(schema, record)
            if not wrong:
                records.append(record)
        named = f" (graph {describe(graph['id'])})" if type(graph.get("id")) in (str, int) else ""
        problems += [f"{place}{named}, {text}" for text in wrong]
    return records, problems[:MOST_PROBLEMS], len(problems) > MOST_PROBLEMS


def _lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines; of one that is too long only its beginning, as long as it takes to see that."""
    with open(path, "rb") as file:
        if file.peek(2)[:2] == GZIP:
            raise InvalidFile(path, ["it is packed by gzip: unpack it first"], more=False)
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            rest = line
            while len(line) > LONGEST_LINE and rest and not rest.endswith(b"\n"):
                rest = file.readline(2**24)
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
