"""The permutation σ of Eq. 2, the cyclic group 𝔊 = ⟨σ⟩ of Lemma 2, and the pairs its arrangements cover.

Code counts from 0, print counts from 1: ``sigma(5)(1) == 3`` is what the paper writes as σ(2) = 4, and
``repr(sigma(5))`` is ``(2 4 5 3)``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import lcm
from typing import Any, TypeVar

T = TypeVar("T")
Pair = tuple[int, int]


@dataclass(frozen=True, repr=False)
class Permutation:
    """A permutation of {0, …, n−1}, given by the image of each element.

    Compose with ``*`` (right factor first), invert with ``~``, raise to any power with ``**``, apply to an element by
    calling it and to a sequence with :meth:`act`.

    Example:
        >>> from pggnn.groups import Permutation
        >>> turn = Permutation((1, 2, 0))
        >>> turn, turn * turn, ~turn, turn**3
        ((1 2 3), (1 3 2), (1 3 2), e)
        >>> turn.act("abc")
        ('b', 'c', 'a')
    """

    images: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.images) != list(range(len(self.images))):
            raise ValueError(f"expected each of 0…{len(self.images) - 1} once, got {self.images}")

    @classmethod
    def identity(cls, n: int) -> "Permutation":
        return cls(tuple(range(n)))

    @property
    def degree(self) -> int:
        """How many elements it permutes."""
        return len(self.images)

    @property
    def order(self) -> int:
        """The smallest r ≥ 1 with self**r the identity."""
        return lcm(*map(len, self.cycles()))

    def __call__(self, i: int) -> int:
        return self.images[i]

    def __mul__(self, other: "Permutation") -> "Permutation":
        if self.degree != other.degree:
            raise ValueError(f"cannot compose permutations of {self.degree} and {other.degree} elements")
        return Permutation(tuple(self.images[i] for i in other.images))

    def __invert__(self) -> "Permutation":
        return Permutation(tuple(sorted(range(self.degree), key=self.images.__getitem__)))

    def __pow__(self, exponent: int) -> "Permutation":
        base, result = (self if exponent >= 0 else ~self), Permutation.identity(self.degree)
        for _ in range(abs(exponent)):
            result = result * base
        return result

    def act(self, items: Sequence[T]) -> tuple[T, ...]:
        """The arrangement (g·1, g·2, …, g·n) of ``items``: position t holds ``items[self(t)]``."""
        if len(items) != self.degree:
            raise ValueError(f"expected {self.degree} items, got {len(items)}")
        return tuple(items[i] for i in self.images)

    def cycles(self) -> list[tuple[int, ...]]:
        """Disjoint cycles, fixed points included, each starting with its smallest element."""
        seen: set[int] = set()
        cycles = []
        for first in range(self.degree):
            cycle = []
            i = first
            while i not in seen:
                seen.add(i)
                cycle.append(i)
                i = self.images[i]
            if cycle:
                cycles.append(tuple(cycle))
        return cycles

    def __repr__(self) -> str:
        moved = [cycle for cycle in self.cycles() if len(cycle) > 1]
        return "".join("(" + " ".join(str(i + 1) for i in cycle) + ")" for cycle in moved) or "e"


@dataclass(frozen=True, repr=False)
class CyclicGroup:
    """⟨generator⟩; ``group[k]`` is the generator's k-th power, ``iter(group)`` runs through e, σ, σ², …

    Example:
        >>> from pggnn.groups import CyclicGroup, Permutation
        >>> turns = CyclicGroup(Permutation((1, 2, 3, 0)))
        >>> turns, turns[2]
        (⟨(1 2 3 4)⟩ ≅ Z_4 on 4 elements, (1 3)(2 4))
        >>> turns.arrangements[1]
        (1, 2, 3, 0)
    """

    generator: Permutation

    @property
    def degree(self) -> int:
        return self.generator.degree

    @property
    def order(self) -> int:
        return self.generator.order

    def __len__(self) -> int:
        return self.order

    def __getitem__(self, k: int) -> Permutation:
        return self.generator ** (k % self.order)

    def __iter__(self) -> Iterator[Permutation]:
        element = Permutation.identity(self.degree)
        for _ in range(self.order):
            yield element
            element = self.generator * element

    def __contains__(self, permutation: object) -> bool:
        return any(element == permutation for element in self)

    @cached_property
    def arrangements(self) -> list[tuple[int, ...]]:
        """What each element makes of 0, 1, …, n−1."""
        return [element.images for element in self]

    def __repr__(self) -> str:
        return f"⟨{self.generator!r}⟩ ≅ Z_{self.order} on {self.degree} elements"


def cycle(n: int) -> tuple[int, ...]:
    """The one long cycle of σ in Eq. 2: 2 4 6 … 7 5 3 for odd n (1 stays fixed), 1 3 5 … 6 4 2 for even n."""
    if n < 0:
        raise ValueError(f"expected a number of neighbours n ≥ 0, got {n}")
    first = n % 2
    return (*range(first, n, 2), *reversed(range(first + 1, n, 2)))


def sigma(n: int) -> Permutation:
    """σ of Eq. 2 on n neighbours.

    Example:
        >>> from pggnn.groups import sigma
        >>> sigma(7)
        (2 4 6 7 5 3)
    """
    images = list(range(n))
    ring = cycle(n)
    for i, j in zip(ring, ring[1:] + ring[:1], strict=True):
        images[i] = j
    return Permutation(tuple(images))


@cache
def group(n: int) -> CyclicGroup:
    """𝔊 of Lemma 2 on n neighbours.

    Example:
        >>> from pggnn.groups import coverage, group
        >>> group(7)
        ⟨(2 4 6 7 5 3)⟩ ≅ Z_6 on 7 elements
        >>> len(coverage(group(7).arrangements[:3])), 7 * 6 // 2  # three arrangements, read one way, have every pair
        (21, 21)
    """
    return CyclicGroup(sigma(n))


def order(n: Any) -> Any:
    """|𝔊| in closed form (Lemma 2): n for even n, n − 1 for odd n, 1 for n ≤ 1. Integers and integer tensors.

    Example:
        >>> from pggnn.groups import order
        >>> [order(n) for n in range(9)]
        [1, 1, 2, 2, 4, 4, 6, 6, 8]
    """
    return n - (n & 1) + (n < 2) * 1


def slot(k: Any, t: Any, n: Any) -> Any:
    """σᵏ(t) on n neighbours in closed form, for 0 ≤ k < |𝔊| and 0 ≤ t < n. Integers, arrays and tensors alike.

    σ turns its cycle by one place, so σᵏ(t) is three steps of arithmetic: find the place of t on the cycle, go k places
    on, read the element there. Even elements stand at the cycle's front in rising order, odd ones behind in falling
    order; an odd n has the fixed point 0 before them.

    Example:
        >>> from pggnn.groups import slot
        >>> [slot(1, t, 7) for t in range(7)]  # what σ reads first, second, …
        [0, 3, 1, 5, 2, 6, 4]
    """
    fixed = n & 1
    length = n - fixed
    half, odd = (t - fixed) >> 1, (t - fixed) & 1
    place = half + odd * (length - 1 - 2 * half) + k
    place = place - length * (place >= length)
    rising, falling = 2 * place, 2 * (length - place) - 1
    element = rising + (falling - rising) * (falling < rising)
    return (fixed + element) * (t >= fixed)


@dataclass(frozen=True)
class Group:
    """In which orders n members are read, for every n, in closed form: integers, arrays and tensors alike.

    ``order(n)`` is how many orders there are, ``slot(k, t, n)`` the member that order k reads at step t, and
    ``place(k, j, n)`` the step at which it reads member j. Nothing is tabulated.
    """

    order: Callable[[Any], Any]
    slot: Callable[[Any, Any, Any], Any]
    place: Callable[[Any, Any, Any], Any] | None = None
    choice: int | None = None
    """Where an order reads only some of the members: how many at most."""
    most: int | None = None
    """The largest n that it is for, if there is one."""

    def members(self, n: Any) -> Any:
        """How many members each order reads."""
        return n if self.choice is None else n - (n - self.choice) * (n > self.choice)


def _place(k: Any, j: Any, n: Any) -> Any:
    """σᵏ(t) = j at t = σ⁻ᵏ(j)."""
    return slot((order(n) - k) * (k > 0), j, n)


def _dihedral_slot(k: Any, t: Any, n: Any) -> Any:
    """Order k < n begins with member k and goes on, order n + k begins there and goes back."""
    back = k >= n
    first = k - n * back
    place = first + t - 2 * t * back
    return place - n * (place >= n) + n * (place < 0)


def _dihedral_place(k: Any, j: Any, n: Any) -> Any:
    back = k >= n
    first = k - n * back
    step = (j - first) * (1 - 2 * back)
    return step + n * (step < 0)


def choices(size: int, least: int = 1, most: int | None = None) -> Group:
    """Every ordered choice of ``size`` members, or of all there are if fewer; nothing of fewer than ``least``.

    Choice k is a number in mixed base: its first digit takes one of n members, its second one of n − 1 left, and so on.
    """

    def left(n: Any, taken: int) -> Any:
        rest = n - taken
        return rest + (1 - rest) * (rest < 1)

    def count(n: Any) -> Any:
        product = n
        for taken in range(1, size):
            product = product * left(n, taken)
        return product * (n >= least) + (n < 1)

    def member(k: Any, t: Any, n: Any) -> Any:
        digits = []
        for taken in reversed(range(1, size)):
            digits.append(k % left(n, taken))
            k = k // left(n, taken)
        digits = [k, *reversed(digits)]
        found = t * 0
        for step, digit in enumerate(digits):
            for before in reversed(digits[:step]):
                digit = digit + (digit >= before)
            found = found + digit * (t == step)
        return found

    return Group(count, member, choice=size, most=most)


GROUPS: dict[str, Group] = {
    "pairs": Group(order, slot, _place),
    "dihedral": Group(lambda n: n + n * (n > 2) + (n < 1), _dihedral_slot, _dihedral_place),
    "all": choices(5, most=5),
    "trivial": Group(lambda n: n * 0 + 1, lambda k, t, n: t, lambda k, j, n: j),
    "twos": choices(2, least=2),
    "threes": choices(3),
}
"""``pairs`` is 𝔊 of Eq. 2, ``dihedral`` the rotations and reflections of a ring, ``all`` every order of at most five
members, ``trivial`` the given order alone; ``twos`` and ``threes`` are the ordered choices of two and of three."""


def ring_pairs(arrangement: Sequence[int]) -> list[Pair]:
    """The ordered pairs (2-ary dependencies) that an arrangement covers as a closed ring, the form of Eq. 3."""
    n = len(arrangement)
    return [(arrangement[t], arrangement[(t + 1) % n]) for t in range(n)] if n > 1 else []


def path_pairs(arrangement: Sequence[int]) -> list[Pair]:
    """The ordered pairs that an arrangement covers when v stands at both its ends and the ring stays open."""
    return ring_pairs(arrangement)[: len(arrangement) - 1] if len(arrangement) > 1 else []


def coverage(
    arrangements: Iterable[Sequence[int]], pairs: Callable[[Sequence[int]], list[Pair]] = ring_pairs
) -> dict[Pair, int]:
    """How often each ordered pair is covered by the arrangements together.

    Example:
        >>> from pggnn.groups import coverage
        >>> coverage([(0, 1, 2)])
        {(0, 1): 1, (1, 2): 1, (2, 0): 1}
    """
    counts: dict[Pair, int] = {}
    for arrangement in arrangements:
        for pair in pairs(arrangement):
            counts[pair] = counts.get(pair, 0) + 1
    return counts
