"""Draws two pictures with the library: the arc of σ's cycle that an arrangement has read, and what an atom reads.

python docs/site/pictures.py docs     # arcs.svg and beyond.svg
"""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.patches import Arc
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from pggnn.groups import cycle, group
from pggnn.lists import LISTS, read_lists
from pggnn.neighbourhoods import star
from pggnn.report.figures import BLUE, FAINT, INK, circle, drawing
from pggnn.transforms import AddHops, AddPaths, AddRings

ORANGE, GREEN = "#b35c00", "#1b7f4b"
COLOURS = {"star": [BLUE], "rings": [BLUE, BLUE, ORANGE, ORANGE], "paths": [GREEN] * 4, "hops": [BLUE, ORANGE]}
"""Of what the atom reads, and of each of its sequences; a ring is read both ways."""
CENTRE = 5
"""The atom that reads."""
BONDS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (5, 6), (6, 7), (7, 8), (8, 4), (7, 9)]


def draw_arcs(path: Path, n: int = 8) -> None:
    """Arrangement k of n neighbours on their cycle, after two steps and after five."""
    places = {node: place for place, node in enumerate(cycle(n))}
    read = [(places[node] + n // 2 - 1) % n - n // 2 + 1 for node in group(n).arrangements[0]]
    with drawing(path, (6.2, 3.1), 12) as figure:
        matplotlib.rcParams["svg.fonttype"] = "none"  # letters, not outlines
        for axes, steps in zip(figure.subplots(1, 2), (2, 5), strict=True):
            axes.set(xlim=(-1.85, 1.85), ylim=(-1.6, 1.6), aspect="equal")
            axes.axis("off")
            low, high = min(read[:steps]), max(read[:steps])
            for begins, ends, colour in ((low, high, BLUE), (high + 1, low - 1 + n, ORANGE)):
                angles = (90 - 360 * (ends + 0.3) / n, 90 - 360 * (begins - 0.3) / n)
                axes.add_patch(Arc((0, 0), 2, 2, theta1=angles[0], theta2=angles[1], lw=13, color=colour, alpha=0.3))
            for place in read:
                done, ((x, y), (far_x, far_y)) = place in read[:steps], (circle(n, r)[place] for r in (1, 1.42))
                edge = INK if place == read[steps - 1] else "none"
                axes.plot(x, y, "o", ms=19, mfc=BLUE if done else ORANGE, mec=edge, mew=2)
                if done:
                    axes.text(x, y, str(read.index(place) + 1), color="white", ha="center", va="center_baseline")
                sub = f"k{place:+d}".replace("-", "−") if place else "k"
                axes.text(1.06 * far_x, far_y, f"$c_{{{sub}}}$", ha="center", va="center", color=INK)
            axes.text(0, 0.15, f"{steps} read", ha="center", va="center", color=BLUE)
            axes.text(0, -0.15, f"{n - steps} to come", ha="center", va="center", color=ORANGE)


def draw_lists(path: Path) -> None:
    """What an atom reads of a molecule: its star, its rings, the paths that end at it, and hops."""
    molecule = Data(edge_index=to_undirected(torch.tensor(BONDS).t()), num_nodes=10)
    molecule = AddHops()(AddPaths(2)(AddRings()(molecule)))
    with drawing(path, (5.4, 6.2), 12) as figure:
        matplotlib.rcParams["svg.fonttype"] = "none"
        for axes, kind in zip(figure.subplots(2, 2).flat, COLOURS, strict=True):
            rows = what_it_reads(kind, molecule)
            draw_molecule(axes, kind, rows)
            said = [(" ".join(map(str, row)), colour) for row, colour in zip(rows, COLOURS[kind], strict=True)]
            if kind == "hops":
                said = [(f"distance {number}: {row}", colour) for number, (row, colour) in enumerate(said, start=1)]
            if kind in ("star", "hops"):
                said.append(("and in other orders", INK))
            for line, (text, colour) in enumerate(said):
                axes.text(1.25, -1.6 - 0.55 * line, text, ha="center", va="top", color=colour)
            title = "paths of two edges" if kind == "paths" else kind
            axes.set_title(title, fontweight="bold", fontsize=12)
            axes.set(xlim=(-1.3, 3.8), ylim=(-3.7, 1.4), aspect="equal")
            axes.axis("off")


def what_it_reads(kind: str, molecule: Data) -> list[list[int]]:
    """The atom's sequences; of its star and of each distance the first."""
    if kind == "star":
        lists, _ = star(molecule.edge_index, 10)
        return [[CENTRE, *lists.member[lists.reader == CENTRE].tolist(), CENTRE]]
    plan, owner, *_ = read_lists(kind, molecule)
    rows = [plan.neighbor[plan.center == number].tolist() for number in (owner == CENTRE).nonzero().view(-1)]
    return [[CENTRE, *row, CENTRE] for row in rows] if LISTS[kind].apart else rows


def draw_molecule(axes: Any, kind: str, rows: list[list[int]]) -> None:
    """The bonds, the atoms in the colour of the sequence that reads them, and the way of reading."""
    five, (middle, _) = circle(5, 0.851), (1.554, 0)  # beside the ring of six, whose sides are as long
    places = dict(zip((0, 5, 4, 3, 2, 1), circle(6), strict=True))
    places |= {atom: (middle + y, x) for atom, (x, y) in zip((7, 6, 8), (five[0], five[1], five[4]), strict=True)}
    places[9] = (middle + 1.851, 0)
    for one, other in BONDS:
        axes.plot(*zip(places[one], places[other], strict=True), color=FAINT, lw=2.5, zorder=1)
    fill = {atom: colour for row, colour in zip(rows, COLOURS[kind], strict=True) for atom in row}
    for atom, place in places.items():
        colour = INK if atom == CENTRE else fill.get(atom, "white")
        axes.plot(*place, "o", ms=17, mfc=colour, mec=colour if atom in fill else "#777777", zorder=3)
        letter = "white" if atom in fill else INK
        axes.text(*place, str(atom), ha="center", va="center_baseline", color=letter, fontsize=11, zorder=4)
    arrow = {"star": [(atom, CENTRE) for atom in rows[0][1:-1]],
             "paths": [pair for row in rows for pair in pairwise(row)]}.get(kind, [])  # fmt: skip
    for begin, end in arrow:
        style = {"arrowstyle": "-|>", "color": COLOURS[kind][0], "lw": 2, "shrinkA": 9, "shrinkB": 9}
        axes.annotate("", places[end], places[begin], arrowprops=style, zorder=2)
    for row, colour, shift in (
        zip(rows[::2], COLOURS[kind][::2], (-0.05, 0.05), strict=False) if kind == "rings" else []
    ):
        for begin, end in pairwise(row):
            both = {begin, end} == {4, 5}  # lies on either ring
            xs, ys = zip(places[begin], places[end], strict=True)
            axes.plot([x + both * shift for x in xs], ys, color=colour, lw=3.5, zorder=2)
        x, y = (sum(places[atom][axis] for atom in row[1:]) / len(row[1:]) for axis in (0, 1))
        bow = {"arrowstyle": "<|-|>", "connectionstyle": "arc3,rad=-1.2", "color": colour, "lw": 1.5}
        axes.annotate("", (x + 0.28, y - 0.1), (x - 0.28, y - 0.1), arrowprops=bow | {"shrinkA": 0, "shrinkB": 0})


if __name__ == "__main__":
    draw_arcs(Path(sys.argv[1]) / "arcs.svg")
    draw_lists(Path(sys.argv[1]) / "beyond.svg")
