import pytest

from pggnn.files import replacing


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with replacing(path) as unfinished:
        unfinished.write_text("first")
    with pytest.raises(ValueError, match="cut off"), replacing(path) as unfinished:
        unfinished.write_text("second")
        raise ValueError("cut off")
    assert path.read_text() == "first"
    assert list(path.parent.iterdir()) == [path]
