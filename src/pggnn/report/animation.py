"""The idea as a moving picture: one arrangement after another is read, and the table of pairs fills."""

from html import escape
from pathlib import Path

from pggnn.files import replacing
from pggnn.groups import group, path_pairs, ring_pairs
from pggnn.report.figures import circle

LEAST, MOST = 3, 12
"""Neighbours that fit into the picture."""
COLOURS = ("#1b5fa8", "#b8430e", "#1a7a3c", "#7b3fa0", "#8a6d00", "#0f7480")
STEP, REST, TIMES = 0.35, 2.5, 3
"""Seconds for each pair, and for the whole picture before it begins anew; how often it is played before it stays."""
STYLE = """
text{font:21px sans-serif;fill:#222;text-anchor:middle;dominant-baseline:central}.l{text-anchor:start}.s{font-size:19px}
.r{stroke:#b8b8b8;fill:#fff}line{stroke-width:2}
"""


def animate_pairs(n: int, path: str | Path) -> Path:
    """Draws an animated SVG of the arrangements that bring all pairs of n neighbours side by side. Where motion is
    not wanted it shows its last state."""
    if not LEAST <= n <= MOST:
        raise ValueError(f"the moving picture is for {LEAST} to {MOST} neighbours, got {n}")
    if Path(path).suffix.lower() != ".svg":
        raise ValueError(f"the moving picture's file must end in .svg, got {str(path)!r}")
    with replacing(Path(path)) as unfinished:
        unfinished.write_text(draw_pairs(n), encoding="utf-8")
    return Path(path)


def draw_pairs(n: int) -> str:
    """The picture as text: neighbours on a circle, the arrangements as rows, and a table with a cell for each pair."""
    pairs_of = ring_pairs if n % 2 else path_pairs  # for even n the open sequences have each pair once
    rows = group(n).arrangements[: n // 2]
    places = circle(n, 108, (135, 0))
    centre, cell = 140, min(33, 240 // (n - 1))
    digit = 27 if n < 10 else 31
    left, first = 268, 340 + digit * (n + n % 2)
    width, seconds = first + cell * (n - 1) + 16, STEP * n * (n - 1) / 2 + REST
    body: list[str] = []
    moves: list[str] = []
    step, top = 0, centre - cell * (n - 1) // 2

    def at(place: tuple[float, float]) -> tuple[float, float]:
        return place[0], centre - place[1]

    def appears(number: int) -> str:
        """The class of what appears at a step; what has appeared stays until the end."""
        begin = 100 * STEP * (number + 0.5) / seconds
        if len(moves) <= number:
            moves.append(
                f"@keyframes k{number}{{0%,{begin:.1f}%{{opacity:.08}}"
                f"{begin + 1:.1f}%,98%{{opacity:1}}to{{opacity:.08}}}}"
                f".k{number}{{animation:k{number} {seconds:.2f}s {TIMES}}}"
            )
        return f"k{number}"

    for k, row in enumerate(rows):
        colour, y = COLOURS[k], centre + min(44, 220 // len(rows)) * (k - (len(rows) - 1) / 2)
        read = [*row, row[0]] if n % 2 else [*row]
        name = {0: "e", 1: "σ"}.get(k, f"σ{'²³⁴⁵'[k - 2]}" if k > 1 else "")
        body.append(f'<text x="{left}" y="{y:.0f}" class="l" style="fill:{colour}">{name}</text>')
        for t, (i, j) in enumerate(pairs_of(row)):
            move = appears(step)
            (x1, y1), (x2, y2) = at(places[i]), at(places[j])
            high, low = sorted((i, j), reverse=True)
            body.append(
                f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" class="{move}"/>'
                f'<rect x="{first + cell * low}" y="{top + cell * (high - 1)}" width="{cell - 3}" height="{cell - 3}" '
                f'rx="3" fill="{colour}" class="{move}"><title>{low + 1} and {high + 1}</title></rect>'
            )
            for place in (0, 1) if t == 0 else (t + 1,):
                body.append(
                    f'<text x="{left + 44 + digit * place}" y="{y:.0f}" class="{move}">{read[place] + 1}</text>'
                )
            step += 1
    for i, spot in enumerate(places):
        x, y = at(spot)
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="17" class="r"/><text x="{x:.1f}" y="{y:.1f}">{i + 1}</text>')
    body += [
        f'<text x="{first + cell * (i + 0.4):.0f}" y="{top + cell * (n - 1) + 12}" class="s">{i + 1}</text>'
        f'<text x="{first - 16}" y="{top + cell * (i + 0.4):.0f}" class="s">{i + 2}</text>'
        for i in range(n - 1)
    ]
    total = n * (n - 1) // 2
    body.append(
        f'<text x="135" y="294">{n} neighbours</text>'
        f'<text x="{left + 44 + digit * n / 2:.0f}" y="294">{len(rows)} orders of reading</text>'
        f'<text x="{first + cell * (n - 1) / 2:.0f}" y="294">all {total} pairs</text>'
    )
    what = f"{n} neighbours on a circle. {len(rows)} orders of reading them bring all {total} pairs side by side."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 312" width="{width}" height="312" role="img">'
        f"<title>{escape(what)}</title><style>{STYLE}@media (prefers-reduced-motion:no-preference){{{''.join(moves)}}}"
        f'</style><rect width="{width}" height="312" rx="8" fill="#fff"/>{"".join(body)}</svg>\n'
    )
