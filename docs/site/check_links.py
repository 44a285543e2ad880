"""Checks a built site: each link, picture, script and style of a page leads to a file of the site, and each ``#place``
to something on its page.

    python docs/site/check_links.py build/site
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ELSEWHERE = {"http", "https", "mailto", "data"}


class Page(HTMLParser):
    """The links of a page and the places on it that links can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.places.add(value)
            if value and (name == "src" or (name == "href" and tag in ("a", "link", "area"))):
                self.links.append(value)


def broken(site: Path) -> Iterator[str]:
    """What is wrong, a line for each link."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ELSEWHERE:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme or parts.netloc or link.startswith("/"):
                yield f"{path.relative_to(site)}: {link} is not within the site"
            elif not target.is_file():
                yield f"{path.relative_to(site)}: {link} leads to no file"
            elif target in pages and unquote(parts.fragment) not in pages[target].places:
                yield f"{path.relative_to(site)}: {link} leads to no place on its page"


def main() -> int:
    site = Path(sys.argv[1]).resolve()
    pages = len([*site.rglob("*.html")])
    if not pages:
        print(f"there are no pages in {site}: run make docs", file=sys.stderr)
        return 2
    problems = [*broken(site)]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{pages} pages, {len(problems)} broken links")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
