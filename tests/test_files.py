import errno
import os
import subprocess
import sys

import pytest

from pggnn.files import read_json, replacing, unfinished


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


def test_texts_are_in_utf_8_whatever_the_locale(tmp_path):
    path = tmp_path / "a.json"
    program = f"from pggnn.files import write_text; write_text({str(path)!r}, chr(34) + chr(963) + chr(34))"
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", program], env=os.environ | plain, check=True)
    assert read_json(path) == "σ"
