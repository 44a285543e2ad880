"""Which tiles a call runs at a time and what it keeps of them: all that the host decides, once for all calls alike."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from pggnn.ops.fused.geometry import Geometry
from pggnn.ops.fused.shape import total_memory
from pggnn.ops.fused.tiles import Chunk, Extent
from pggnn.ops.workspace import SHARES

WORTH_KEEPING = 16
"""The forward pass keeps 1/16 of all states if no more fit the workspace."""
PAUSES = 2
"""Where the GPU has memory to spare, the states between slabs may take this much room in that of the states of one
slab: more tiles then run at the same time."""


@dataclass(frozen=True)
class Portions:
    """Of so many layers of a cell over the sequences of a graph."""

    extent: Extent
    geometry: Geometry
    layers: int
    workspace: int
    returned: bool
    """Whether what is kept is returned by an operator, which cannot take it back."""

    @cached_property
    def kept_width(self) -> int:
        """Numbers that are kept of a sequence's step."""
        return (self.geometry.fields + self.geometry.states) * self.geometry.width * self.layers

    @cached_property
    def most_rows(self) -> tuple[int, int]:
        """Steps of sequences that the workspace has room for: kept for the backward pass, and only passed through."""
        geometry, upper = self.geometry, self.layers > 1
        product = geometry.fields if upper and not geometry.shape.projects else 0
        between = 2 if geometry.streams else 0  # the state between the steps, over the least number of steps
        beside = max(0 if geometry.by_field else product, 1 if upper and geometry.shape.projects else 0)
        if self.returned:  # gradients do not overwrite what an operator has returned
            beside = geometry.fields + 1
        kept = self.kept_width // geometry.width + between + beside
        passed = 1 + upper + between + product
        size, least = geometry.width * geometry.dtype.itemsize, 2 * geometry.shape.block
        return max(least, self.workspace // kept // size), max(least, self.workspace // passed // size)

    @cached_property
    def chunks(self) -> list[Chunk]:
        """The tiles, as many at a time as the backward pass has room for."""
        return self.extent.chunks(self.most_rows[0], self.geometry.wave, pauses=self.pauses)

    @cached_property
    def affordable(self) -> bool:
        """Whether the GPU has so much memory that some more than the workspace does no harm."""
        return self.workspace * SHARES <= total_memory(self.geometry.device)

    @property
    def pauses(self) -> int:
        """How much room the states between slabs may take, in that of the states of one slab."""
        return PAUSES if self.affordable else 1

    @cached_property
    def keeps_first(self) -> bool:
        """Whether the forward pass keeps the states of the first of these: where it is the only one, or a part that
        is worth it. What an operator returns it cannot take back, so there all or nothing is kept."""
        if len(self.chunks) < 2 or self.returned:
            return len(self.chunks) == 1 and not self.chunks[0].slabs
        first = self.chunks[0]
        return not first.slabs and self.affordable and first.rows * WORTH_KEEPING >= self.extent.rows

    @cached_property
    def keeps_pauses(self) -> bool:
        """Whether there are slabs, and the states between them all fit the workspace: they need not be found again."""
        chunks = [chunk for chunk in self.chunks if chunk.slabs]
        pauses = sum((len(chunk.begins) - 1) * chunk.tiles for chunk in chunks)
        states = pauses * self.geometry.shape.block * self.layers
        return 0 < states * 2 * self.geometry.width * 4 <= self.workspace

    @cached_property
    def memory(self) -> int:
        """Numbers that are kept of any one of the chunks."""
        return max((chunk.rows for chunk in self.chunks), default=0) * self.kept_width

    def forward(self, keep: bool) -> tuple[list[Chunk], Chunk | None]:
        """The chunks of the forward pass, and the last of them if its states are kept."""
        kept = self.chunks[0] if keep and self.keeps_first else None
        most_rows = self.most_rows[0] if keep and self.keeps_pauses else self.most_rows[1]
        chunks = self.extent.chunks(most_rows, self.geometry.wave, 0 if kept is None else kept.tiles, self.pauses)
        return chunks if kept is None else [*chunks, kept], kept


portions = lru_cache(maxsize=256)(Portions)
