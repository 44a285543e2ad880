import errno
import os

import pytest

from pggnn.files import replacing, unfinished


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with replacing(path) as unfinished:
        unfinished.write_text("first")
    with pytest.raises(ValueError, match="cut off"), replacing(path) as unfinished:
        unfinished.write_text("second")
        raise ValueError("cut off")
    assert path.read_text() == "first"
    assert list(path.parent.iterdir()) == [path]


def test_what_a_killed_process_left_is_found_and_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    left = replacing(path)
    left.__enter__().write_text("{")
    for name in (".bashrc", "a.1.json", ".a.json", ".git"):
        (tmp_path / name).touch()
    (found,) = unfinished(tmp_path)
    assert found.read_text() == "{"


def test_a_full_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '.*a.json'"), replacing(tmp_path / "a.json"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
