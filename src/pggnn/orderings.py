"""Which sequences a node makes of its neighbourhood: the form they take and how many arrangements are read.

Everything here is closed-form arithmetic on the degree ``n``: it takes integers or integer tensors, and no arrangement
is ever stored.
"""

from dataclasses import dataclass
from typing import Any, Literal

from pggnn.groups import order, slot

Form = Literal["merged", "ring", "path", "pair", "triplet", "trio", "chain"]

FORMS: dict[Form, str] = {
    "merged": "[v, g·u₁, …, g·uₙ, v] for each g: the paper's practice",
    "ring": "[g·u₁, …, g·uₙ, g·u₁] for each g: Eq. 3",
    "path": "[g·u₁, …, g·uₙ] for each g: the ring left open, as GraphSAGE reads a neighbourhood",
    "pair": "[uᵢ, uⱼ] for each ordered pair: eq:twin",
    "triplet": "[uᵢ, uⱼ, v] for each ordered pair: eq:triplet",
    "trio": "[uᵢ, uⱼ, uₖ] for each ordered choice of three: beyond the paper; of fewer neighbours, all there are",
    "chain": "the rings of all g, one after the other, as one sequence: eq:seq",
}
TOLD: tuple[Form, ...] = ("merged", "ring", "pair", "trio")
"""Forms whose steps can be told which neighbours are adjacent."""
ROOT = -1
"""What :meth:`Reading.slot` returns where a sequence reads the centre node itself."""


@dataclass(frozen=True)
class Reading:
    """The sequences read at a node with n neighbours.

    Args:
        form: Their form, one of :data:`FORMS`.
        limit: At most this many elements of 𝔊, evenly spaced; ``None`` is the whole group. Pairs ignore it.
        rescale: Whether a sum over ``limit`` elements stands for the sum over the group, and is scaled by |𝔊| / limit.
        mean: Whether the mean over the elements is taken instead of their sum.
    """

    form: Form = "merged"
    limit: int | None = None
    rescale: bool = False
    mean: bool = False

    @property
    def reads_root(self) -> bool:
        """Whether the centre node itself stands in the sequences."""
        return self.form in ("merged", "triplet")

    def elements(self, n: Any) -> Any:
        """How many elements of 𝔊 are used."""
        size = order(n)
        return size if self.limit is None else size + (self.limit - size) * (size > self.limit)

    def count(self, n: Any) -> Any:
        """How many sequences are read; every form but the merged one is empty without neighbours."""
        if self.form == "merged":
            return self.elements(n)
        if self.form in ("ring", "path"):
            return self.elements(n) * (n > 0)
        if self.form == "chain":
            return (n > 0) * 1
        if self.form == "trio":
            second, third = _left(n)
            return n * second * third
        return n * (n - 1)

    def length(self, n: Any) -> Any:
        """How many steps each of them has."""
        if self.form == "merged":
            return n + 2
        if self.form in ("ring", "path"):
            return n + (self.form == "ring")
        if self.form == "chain":
            return (n + 1) * self.elements(n)
        if self.form == "trio":
            return n - (n - 3) * (n > 3)
        return n * 0 + (2 if self.form == "pair" else 3)

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
        return order(n) / elements if self.rescale else n * 0 + 1

    def slot(self, i: Any, t: Any, n: Any) -> Any:
        """The neighbour (0…n−1) or :data:`ROOT` that sequence ``i`` reads at step ``t``."""
        if self.form == "merged":
            inner = (t > 0) & (t <= n)
            return (slot(self._element(i, n), (t - 1) * inner, n) + 1) * inner + ROOT
        if self.form in ("ring", "path"):
            return slot(self._element(i, n), t * (t < n), n)
        if self.form == "chain":
            g, place = t // (n + 1), t % (n + 1)
            return slot(self._element(g, n), place * (place < n), n)
        if self.form == "trio":
            second, third = _left(n)
            a, b, c = i // (second * third), i // third % second, i % third
            b = b + (b >= a)
            c = c + (c >= a + (b - a) * (b < a))
            c = c + (c >= b + (a - b) * (a > b))
            return a * (t == 0) + b * (t == 1) + c * (t == 2)
        first, second = i // (n - 1), i % (n - 1)
        second = second + (second >= first)
        neighbor = first + (second - first) * (t == 1)
        return neighbor + (ROOT - neighbor) * (t == 2)

    def told_pair(self, i: Any, t: Any, lag: int, n: Any) -> tuple[Any, Any, Any]:
        """The two neighbours of which step ``t`` of sequence ``i`` is told whether they are adjacent, and whether there
        are such: the one it reads, and the one read ``lag`` steps earlier. The rule for structural bits, all of it:

        - A sequence begins with nobody before it: bits that would reach back beyond its first neighbour are 0.
        - The ring's last step reads its first neighbour again and is told of it like any other step.
        - The merged form's last step reads the centre. For odd n it is told what the ring's last step would be: the
          n − 1 closing pairs are those that open arrangements leave out, so with w = 1 each ordered pair is told of
          exactly once. For even n they leave out none, and the last step is told nothing.
        - A neighbour is not compared with itself: where the ring closes, that ends its reach at ``lag`` = n − 1.
        - Pairs and trios are told of those before in the same pair or trio.
        """
        if self.form not in TOLD:
            raise ValueError(f"structure is for sequences of the forms {', '.join(TOLD)}, got {self.form!r}")
        if self.form in ("pair", "trio"):
            told = t >= lag
            return self.slot(i, t, n), self.slot(i, (t - lag) * told, n), told
        place = t - 1 if self.form == "merged" else t
        closes = (n & 1) == 1 if self.form == "merged" else n == n
        told = (place >= lag) & (lag < n) & ((place < n) | closes)
        element = self._element(i, n)
        return slot(element, place * (told & (place < n)), n), slot(element, (place - lag) * told, n), told

    def _element(self, i: Any, n: Any) -> Any:
        return i if self.limit is None else i * order(n) // self.elements(n)


def _left(n: Any) -> tuple[Any, Any]:
    """How many neighbours are left to choose from in a trio's second and third place, 1 where there are none."""
    return n - 1 + (2 - n) * (n < 2), n - 2 + (3 - n) * (n < 3)


MOST_ORDERINGS = 2**31 - 1
"""Products with a degree must fit 64 bits. No node has more neighbours to arrange."""
Orderings = Literal["group", "single", "random"] | int
Reduce = Literal["sum", "mean"]


def read(orderings: Orderings, form: Form = "merged", reduce: Reduce = "sum") -> Reading:
    """The :class:`Reading` that a layer's ``orderings`` and ``reduce`` stand for.

    ``"random"`` reads like ``"single"``: it is the neighbours' numbering that is then drawn afresh (π-SGD).
    """
    if reduce not in ("sum", "mean"):
        raise ValueError(f'reduce must be "sum" or "mean", got {reduce!r}')
    mean = reduce == "mean"
    if orderings == "group":
        return Reading(form, mean=mean)
    if orderings in ("single", "random"):
        return Reading(form, limit=1)
    if isinstance(orderings, int) and not isinstance(orderings, bool) and 0 < orderings <= MOST_ORDERINGS:
        return Reading(form, limit=orderings, rescale=not mean, mean=mean)
    raise ValueError(
        f'orderings must be "group", "single", "random" or an integer from 1 to {MOST_ORDERINGS}, got {orderings!r}'
    )
