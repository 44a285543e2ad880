"""Fetching TU's collection: one zip, read with our own reader before it is put in place."""

from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from torch_geometric.datasets import TUDataset

from pggnn.data.cache import is_writable
from pggnn.data.formats.archives import most_bytes
from pggnn.data.sets.tu import read_tu
from pggnn.files import replacing


def download(archive: str, path: Path, timeout: float = 30.0) -> int:
    """Fetches ``archive``.zip from where PyG's ``TUDataset`` has it to ``path``; the number of graphs in it."""
    url = f"{TUDataset.url}/{archive}.zip"
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    if not is_writable(nearest):
        raise PermissionError(f"{nearest} is read-only; name another folder with --data-root")
    with replacing(path) as unfinished:
        try:
            with urlopen(url, timeout=timeout) as reply, unfinished.open("wb") as file:
                while chunk := reply.read(2**20):
                    file.write(chunk)
                    if file.tell() > (most := most_bytes()):
                        raise ValueError(f"{url} is larger than {most:,} bytes")
        except (URLError, TimeoutError, ConnectionError) as error:
            raise OSError(
                f"{url} cannot be reached ({getattr(error, 'reason', error)}); "
                f"on a machine with no network, put the file at {path}"
            ) from None
        try:
            return len(read_tu(unfinished).checked(url))
        except ValueError as error:
            raise ValueError(f"{url} is not a data set that can be read ({error})") from None
