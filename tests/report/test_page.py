import json
import re
import shutil
from html.parser import HTMLParser

import pytest

from pggnn.cli import main
from pggnn.report.page import write
from pggnn.train.runs.predict import evaluate
from pggnn.train.runs.protocol import load_result

VOID = {"meta", "br", "path", "use", "rect", "circle"}
OPTIONAL = {"tr", "td", "th", "tbody", "thead", "p"}


class Page(HTMLParser):
    """A page's text and tags; fails where tags do not close."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.tags, self.ids = [], [], [], []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"
        assert len(self.ids) == len(set(self.ids)), "an id occurs twice"
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID | OPTIONAL:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        if tag not in VOID | OPTIONAL:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)


def page_of(out, *folders, **options):
    missing = write(folders, out, **options)
    return Page(out.read_text()), missing


def test_one_page_for_several_runs(trained, tmp_path):
    page, missing = page_of(tmp_path / "new" / "page.html", trained["er"], trained["folds"])
    assert not missing
    for run in (trained["er"], trained["folds"]):
        summary = json.loads((run / "summary.json").read_text())
        scale, digits = (100, 1) if summary["metric"] == "accuracy" else (1, 3)
        assert f"{summary['mean'] * scale:.{digits}f} ± {summary['std'] * scale:.{digits}f}" in page.text
        assert f"test {summary['metric']}" in page.text
    assert "PG-GNN" in page.text and "GIN" in page.text
    assert sum(tag == "svg" for tag, _ in page.tags) == 3 + 3 + 1 + 2, (
        "curves, answers, the paper's figures, a baseline"
    )
    machine = json.loads((trained["er"] / "environment.json").read_text())
    assert machine["torch"] in page.text
    assert page.text.count("(RAM)") == 2
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["page.html"]


def test_the_page_needs_nothing_but_itself(trained, tmp_path):
    page, _ = page_of(tmp_path / "page.html", trained["er"], trained["folds"])
    assert not {"link", "script", "img", "iframe", "image"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        for name in ("href", "src", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")
    text = (tmp_path / "page.html").read_text()
    assert not re.search(r"url\((?!#)|@import|https?:", text)
    assert "prefers-color-scheme: dark" in text and "@media print" in text
    assert 'name="viewport"' in text
    assert str(trained["er"]) not in text, "where things lie on this machine is nobody's business"


def test_the_paper_is_beside_the_run(trained, tmp_path):
    page, _ = page_of(tmp_path / "page.html", trained["er"])
    mean = json.loads((trained["er"] / "summary.json").read_text())["mean"]
    assert "0.019 ± 0.002" in page.text and "0.599 ± 0.006" in page.text
    assert f"{mean - 0.019:+.3f}" in page.text
    assert "0.020, 0.017, 0.021, 0.022, 0.016 with seeds 0, 2, 4, 6, 8" in page.text
    assert "er: its graphs were generated from a seed; they are not the paper's." in page.text


def test_cross_validation_says_what_its_choice_has_seen(trained, tmp_path):
    page, _ = page_of(tmp_path / "page.html", trained["folds"])
    assert "3-fold cross-validation as in the paper" in page.text
    assert "The choice of the epoch has seen the test folds" in page.text
    assert "The paper has no figures on" not in page.text, "whose graphs are one's own need not be told"


def test_names_are_text_and_never_markup(trained, tmp_path):
    page, _ = page_of(tmp_path / "page.html", trained["folds"])
    assert "a&b <script>.jsonl" in page.text
    assert "<ring>" in page.text and "path & co" in page.text and "own <b>" in page.text
    assert not {"script", "ring", "b"} & {tag for tag, _ in page.tags}


def test_answers_agree_with_evaluation(trained, tmp_path):
    page, _ = page_of(tmp_path / "page.html", trained["er"])
    errors = [figures["MAE"] for _, figures in evaluate(trained["er"])]
    assert f"400 answers, mean absolute error {sum(errors) / 2:.3f}." in page.text
    page, _ = page_of(tmp_path / "page.html", trained["folds"])
    right = [load_result(trained["folds"] / f"seed0/fold{fold}")["test"] for fold in range(3)]
    assert f"24 answers, {100 * sum(right) / 3:.1f} % of them right." in page.text
    cells = re.findall(r"--share: ([\d.]+)", (tmp_path / "page.html").read_text())
    assert len(cells) == 4
    assert float(cells[0]) + float(cells[1]) == pytest.approx(1, abs=0.002)


def test_a_published_run_has_the_same_page_without_weights_and_data(trained, copied, tmp_path):
    folder = copied("folds")
    graphs = shutil.copy(trained["graphs"], tmp_path)
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace(str(trained["graphs"]), str(graphs)))
    (folder / "predictions.npz").unlink(missing_ok=True)
    write([folder], tmp_path / "first.html")
    assert (folder / "predictions.npz").stat().st_size < 2000
    for file in [*folder.rglob("*.safetensors"), graphs]:
        (tmp_path / file).unlink()
    assert write([folder], tmp_path / "second.html") == []
    assert (tmp_path / "first.html").read_text() == (tmp_path / "second.html").read_text()


def test_what_is_missing_is_said(copied, tmp_path):
    folder = copied("folds")
    (folder / "predictions.npz").unlink(missing_ok=True)
    for file in folder.rglob("*.safetensors"):
        file.unlink()
    (folder / "environment.json").unlink()
    page, missing = page_of(tmp_path / "page.html", folder)
    assert "Test answers are missing: there is no trained network in" in page.text
    assert "There is no environment.json." in page.text and "not recorded" in page.text
    assert len(missing) == 2


def test_an_unfinished_run_is_reported_as_far_as_it_is(copied, tmp_path):
    folder = copied("folds")
    (folder / "seed0/fold1/result.json").unlink()
    log = folder / "seed0/fold1/log.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]) + '{"epoch": 3, "lo')
    shutil.rmtree(folder / "seed0/fold2")
    page, _ = page_of(tmp_path / "page.html", folder)
    assert "2 of 3 trainings have not ended: seed0/fold1 (epoch 2 of 4), seed0/fold2 (epoch 0 of 4)." in page.text
    assert "so far" in page.text
    kept = (folder / "predictions.npz").exists()
    shutil.rmtree(folder / "seed0")
    page, _ = page_of(tmp_path / "page.html", folder, compute=False)
    assert "There is no log of any epoch." in page.text
    assert kept == (folder / "predictions.npz").exists()


def test_a_run_that_has_only_begun(copied, tmp_path):
    folder = copied("er")
    for name in ("seed0", "seed1"):
        shutil.rmtree(folder / name)
    (folder / "summary.json").unlink()
    page, _ = page_of(tmp_path / "page.html", folder)
    assert "no figure yet" in page.text


def test_figures_of_each_training_are_listed_where_there_are_several(trained, tmp_path):
    assert "each training" in page_of(tmp_path / "page.html", trained["er"])[0].text
    one = shutil.copytree(trained["er"], tmp_path / "one")
    config = one / "config.yaml"
    config.write_text(config.read_text().replace("  - 0\n  - 1\n", "  - 0\n"))
    assert "each training" not in page_of(tmp_path / "page.html", one)[0].text


def test_command(trained, tmp_path, capsys):
    assert main(["report", str(trained["er"])]) == 0
    assert f"Page: {trained['er'] / 'report.html'}" in capsys.readouterr().out
    assert (trained["er"] / "report.html").exists()
    assert main(["report", str(trained["er"]), str(tmp_path), "--out", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert error == f"pggnn: error: {tmp_path} is not the folder of a run: no config.yaml is in it or below it\n"
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.endswith("nowhere is not the folder of a run: it does not exist\n")
    assert not (tmp_path / "page.html").exists()
