"""Which sequences a reader makes of its members: a group of orders, a frame around them, and how many are read.

Everything here is closed-form arithmetic on the number of members ``n``: it takes integers or integer tensors, and no
order is ever stored.
"""

from dataclasses import dataclass
from typing import Any, Literal

from pggnn.groups import GROUPS, Group

Frame = Literal["merged", "closed", "open", "after", "chain"]

FRAMES: dict[Frame, str] = {
    "merged": "[v, g·u₁, …, g·uₙ, v]: the reader first and last, the paper's practice",
    "closed": "[g·u₁, …, g·uₙ, g·u₁]: the ring of Eq. 3",
    "open": "[g·u₁, …, g·uₙ]: members alone, as GraphSAGE reads a neighbourhood",
    "after": "[g·u₁, …, g·uₙ, v]: the reader last, as in eq:triplet",
    "chain": "the closed rings of all g, one after the other, as one sequence: eq:seq",
}
STRUCTURED: tuple[Frame, ...] = ("merged", "closed", "open")
"""Frames that structural bits are for."""
ROOT = -1
"""What :meth:`Reading.slot` returns where a sequence reads the reader itself."""


@dataclass(frozen=True)
class Reading:
    """The sequences read of n members.

    Args:
        group: In which orders, one of :data:`pggnn.groups.GROUPS`.
        frame: What stands at their ends, one of :data:`FRAMES`.
        limit: At most this many orders, evenly spaced; ``None`` is the whole group.
        rescale: Whether a sum over ``limit`` orders stands for the sum over the group, and is scaled by |𝔊| / limit.
        mean: Whether the mean over the orders is taken instead of their sum.

    Example:
        >>> from pggnn.orderings import Reading
        >>> reading = Reading("pairs", "merged")
        >>> [int(reading.slot(1, t, 4)) for t in range(6)]  # -1 is the reader itself
        [-1, 2, 0, 3, 1, -1]
    """

    group: str = "pairs"
    frame: Frame = "merged"
    limit: int | None = None
    rescale: bool = False
    mean: bool = False

    def __post_init__(self) -> None:
        if self.group not in GROUPS or self.frame not in FRAMES:
            raise ValueError(
                f"group must be one of {', '.join(GROUPS)} and frame one of {', '.join(FRAMES)}, "
                f"got {self.group!r} and {self.frame!r}"
            )
        if self.orders.choice is not None and (self.limit is not None or self.frame in ("closed", "chain")):
            raise ValueError(f"the choices of group {self.group!r} are all read, and not as rings; use another group")

    @property
    def orders(self) -> Group:
        """The group."""
        return GROUPS[self.group]

    def __str__(self) -> str:
        return self.spec

    @property
    def spec(self) -> str:
        """What is read, without what becomes of it, as an operator takes it: see :meth:`parse`."""
        return f"{self.group} {self.frame} {self.limit or 0}"

    @classmethod
    def parse(cls, spec: str) -> "Reading":
        """Undoes :attr:`spec`."""
        group, frame, limit = spec.split()
        return cls(group, frame, int(limit) or None)  # type: ignore[arg-type]

    @property
    def reads_root(self) -> bool:
        """Whether the reader itself stands in the sequences."""
        return self.frame in ("merged", "after")

    def check(self, profile: Any) -> None:
        """Refuses graphs with more members than the group is for, given :attr:`pggnn.plan.Plan.profile`."""
        most = self.orders.most
        if most is not None and len(profile) > 0 and int(profile[0, 0]) > most:
            raise ValueError(
                f"group={self.group!r} reads at most {most} neighbours in every order, got {int(profile[0, 0])}; "
                f'use group="pairs", or max_degree={most}'
            )

    def elements(self, n: Any) -> Any:
        """How many orders are used."""
        size = self.orders.order(n)
        return size if self.limit is None else size + (self.limit - size) * (size > self.limit)

    def count(self, n: Any) -> Any:
        """How many sequences are read; only the merged frame reads something without members."""
        if self.frame == "merged":
            return self.elements(n)
        return (1 if self.frame == "chain" else self.elements(n)) * (n > 0)

    def length(self, n: Any) -> Any:
        """How many steps each of them has."""
        members = self.orders.members(n)
        if self.frame == "chain":
            return (members + 1) * self.elements(n)
        return members + {"merged": 2, "closed": 1, "open": 0, "after": 1}[self.frame]

    def work(self, n: Any) -> Any:
        """How many steps the sequences of a node have together."""
        return self.count(n) * self.length(n)

    def steps(self, profile: Any) -> int:
        """How many steps all sequences of a graph have together, given its :attr:`pggnn.plan.Plan.profile`."""
        return sum(nodes * self.work(n) for n, nodes in profile.tolist())

    def scale(self, n: Any, dtype: Any = None) -> Any:
        """What the sum over the sequences is multiplied by, to the precision of ``dtype`` if it is given."""
        elements = self.elements(n) if dtype is None else self.elements(n).to(dtype)
        if self.mean:
            return 1 / elements
        return self.orders.order(n) / elements if self.rescale else n * 0 + 1

    def slot(self, i: Any, t: Any, n: Any) -> Any:
        """The member (0…n−1) or :data:`ROOT` that sequence ``i`` reads at step ``t``."""
        members = self.orders.members(n)
        if self.frame == "chain":
            i, t = t // (members + 1), t % (members + 1)
        t = t - int(self.frame == "merged")
        inner = (t >= 0) & (t < members)
        member = self.orders.slot(self._element(i, n), t * inner, n)
        return (member + 1) * inner + ROOT if self.reads_root else member

    def structure_pair(self, i: Any, t: Any, lag: int, n: Any) -> tuple[Any, Any, Any]:
        """The two members that bit ``lag`` of step ``t`` of sequence ``i`` is about, and whether there are such: the
        one the step reads, and the one read ``lag`` steps earlier. The whole rule for structural bits:

        - A sequence begins with nobody before it: bits that would reach back beyond its first member are 0.
        - The closed frame's last step reads its first member again and has bits like any other step.
        - The merged frame's last step reads the reader. With the group ``pairs`` and odd n it has the bits of the
          closed frame's last step: the n − 1 closing pairs are those that open arrangements leave out, so with w = 1
          each ordered pair has exactly one bit. Otherwise they leave out none, and the last step's bits are 0.
        - A member is not compared with itself: where the ring closes, that ends its reach at ``lag`` = n − 1.
        """
        if self.frame not in STRUCTURED:
            raise ValueError(f"structure is for the frames {', '.join(STRUCTURED)}, got {self.frame!r}")
        members = self.orders.members(n)
        place = t - int(self.frame == "merged")
        closes = (n & 1 == 1) & (self.group == "pairs") if self.frame == "merged" else self.frame == "closed"
        exists = (place >= lag) & (lag < members) & ((place < members) | closes)
        element = self._element(i, n)
        this, earlier = place * (exists & (place < members)), (place - lag) * exists
        return self.orders.slot(element, this, n), self.orders.slot(element, earlier, n), exists

    def _element(self, i: Any, n: Any) -> Any:
        return i if self.limit is None else i * self.orders.order(n) // self.elements(n)


MOST_ORDERINGS = 2**31 - 1
"""Products with a degree must fit 64 bits. No node has more neighbours to arrange."""
Orderings = Literal["group", "single", "random"] | int
Reduce = Literal["sum", "mean"]


def read(orderings: Orderings, group: str = "pairs", frame: Frame = "merged", reduce: Reduce = "sum") -> Reading:
    """The :class:`Reading` that a layer's ``orderings`` and ``reduce`` stand for.

    ``"random"`` reads like ``"single"``: the layer then renumbers the neighbours at random each time (π-SGD).

    Example:
        >>> from pggnn.orderings import read
        >>> read("group", "pairs", "merged", "sum").count(7), read(3, "pairs", "merged", "sum").count(7)
        (6, 3)
    """
    if reduce not in ("sum", "mean"):
        raise ValueError(f'reduce must be "sum" or "mean", got {reduce!r}')
    mean = reduce == "mean"
    if orderings == "group":
        return Reading(group, frame, mean=mean)
    if orderings in ("single", "random"):
        return Reading(group, frame, limit=1)
    if isinstance(orderings, int) and not isinstance(orderings, bool) and 0 < orderings <= MOST_ORDERINGS:
        return Reading(group, frame, limit=orderings, rescale=not mean, mean=mean)
    raise ValueError(
        f'orderings must be "group", "single", "random" or an integer from 1 to {MOST_ORDERINGS}, got {orderings!r}'
    )
