"""Where the site's pages link to at PyTorch's, PyG's and Python's. Sphinx reads ``inventories/*.txt``, so that a build
needs no network. This checks each line against the inventory that those sites publish, and writes the pages anew where
they have moved. A name that is gone is an error.

    python docs/site/inventories.py                     # needs the internet
    python docs/site/inventories.py pyg=objects.inv     # an inventory that was downloaded

To link to another name, add a line such as ``torch.nn.GRU class ?`` and run this.
"""

import sys
from pathlib import Path
from urllib.request import urlopen

from conf import HERE, HOMES
from sphinx.util.inventory import InventoryFile


def published(name: str, file: str | None) -> dict[tuple[str, str], str]:
    """The page of each name and kind (``class``) that a site has."""
    home = HOMES[name]
    content = Path(file).read_bytes() if file else urlopen(f"{home}objects.inv", timeout=60).read()
    data = InventoryFile.loads(content, uri="").data
    return {
        (entry, kind.removeprefix("py:")): item.uri.partition("#")[0]
        for kind, entries in data.items()
        if kind.startswith("py:")
        for entry, item in entries.items()
    }


def main() -> int:
    given = dict(one.split("=", 1) for one in sys.argv[1:])
    if unknown := given.keys() - HOMES.keys():
        print(f"there is no inventory {', '.join(unknown)}: expected {', '.join(HOMES)}", file=sys.stderr)
        return 2
    gone = []
    for name in given or HOMES:
        path = HERE / f"inventories/{name}.txt"
        lines = path.read_text().splitlines()
        known = published(name, given.get(name))
        entries = [line.split() for line in lines if line and not line.startswith("#")]
        gone += [f"{name}: {entry} ({kind})" for entry, kind, _ in entries if (entry, kind) not in known]
        rows = sorted(f"{entry} {kind} {known.get((entry, kind), page)}" for entry, kind, page in entries)
        path.write_text("\n".join([*(line for line in lines if line.startswith("#")), *rows]) + "\n")
        print(f"{name}: {len(rows)} names")
    print(*(f"gone: {one}" for one in gone), sep="\n", end="\n" if gone else "")
    return bool(gone)


if __name__ == "__main__":
    sys.exit(main())
