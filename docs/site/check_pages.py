"""Opens each page of a built site in Chromium, from its folder, as wide as a desk and a phone, light and dark. Checks
what readers need: contrast of text, names of links, buttons and fields, texts for pictures, the order of headings, the
Tab key, no error in the console, and no sideways scrolling but in wide tables and code.

    python docs/site/check_pages.py build/site                   # every page
    python docs/site/check_pages.py build/site --shots shots     # and a picture of each
"""

import argparse
import shutil
import sys
from itertools import product
from pathlib import Path

WIDTHS, SCHEMES = {1280: 900, 390: 844}, ("light", "dark")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
TABS = 12
"""Presses of the Tab key on each page."""

CHECK = (Path(__file__).parent / "check_pages.js").read_text().partition("\n")[2]
FOCUSED = r"""
() => {
  const at = document.activeElement, box = at.getBoundingClientRect(), style = getComputedStyle(at);
  const outline = style.outlineStyle !== "none" || style.boxShadow !== "none" || at.matches("input");
  const shown = box.width > 0 && box.height > 0;
  return at === document.body ? null : {html: at.outerHTML.slice(0, 60), shown, outline};
}
"""


def keys(page) -> list[str]:  # type: ignore[no-untyped-def]
    """Presses Tab: each stop must be another one, shown, and marked."""
    problems, stops = [], []
    for _ in range(TABS):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUSED)
        if stop is None:
            break
        if not (stop["shown"] and stop["outline"]):
            problems.append(f"Tab: {'unmarked' if stop['shown'] else 'hidden'}: {stop['html']}")
        stops.append(page.evaluate("() => [...document.querySelectorAll('*')].indexOf(document.activeElement)"))
    if len(stops) < 3 or len(set(stops)) < len(stops):
        problems.append(f"Tab: stops {stops}")
    return problems


def search(page, site: Path) -> list[str]:  # type: ignore[no-untyped-def]
    """The search finds a page, from the folder, without a server."""
    page.goto((site / "search.html").as_uri() + "?q=triangles")
    try:
        page.wait_for_selector("ul.search li a", timeout=20_000)
    except Exception:
        return ["the search finds nothing"]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--shots", type=Path, help="folder for pictures of the whole pages")
    args = parser.parse_args()
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        print("skipped: no browser is installed (apt-get install chromium)")
        return 0
    from playwright.sync_api import sync_playwright

    site = args.site.resolve()
    own = {site / "index.html", site / "genindex.html", site / "search.html", site / "explore.html"}
    pages = [page for page in sorted(site.rglob("*.html")) if page not in own and "_static" not in page.parts]
    found = 0
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=QUIET)
        for (width, height), scheme in product(WIDTHS.items(), SCHEMES):
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", offline=True
            )
            tab = context.new_page()
            said: list[str] = []
            tab.on("console", lambda message, said=said: said.append(message.text) if message.type == "error" else None)
            tab.on("pageerror", lambda error, said=said: said.append(str(error)))
            for page in pages:
                said.clear()
                tab.goto(page.as_uri())
                problems = tab.evaluate(CHECK)
                if args.shots:
                    name = f"{page.relative_to(site).with_suffix('').as_posix().replace('/', '-')}-{width}-{scheme}.png"
                    tab.screenshot(path=args.shots / name, full_page=True)
                problems += keys(tab) if scheme == "light" else []
                problems += [f"console: {text}" for text in said]
                found += len(problems)
                for problem in problems:
                    print(f"{page.relative_to(site)} ({width}, {scheme}): {problem}")
            said.clear()
            problems = search(tab, site) + [f"console: {text}" for text in said]
            found += len(problems)
            for problem in problems:
                print(f"search.html ({width}, {scheme}): {problem}")
        browser.close()
    print(f"{len(pages)} pages, {len(WIDTHS)} widths, {len(SCHEMES)} colour schemes: {found} problems")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
