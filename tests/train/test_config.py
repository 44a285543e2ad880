from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pggnn.train.config import FILE, KEYS, Config, DataConfig, difference, save
from pggnn.train.options import load, parse

CONFIGS = Path(__file__).parents[2] / "configs"
# batch size, hidden units, layers with the input, dropout, readout: Tables 8 and 9
PAPER = {
    "er_triangles": (16, 64, 5, 0.0, None), "er_cliques": (16, 64, 5, 0.0, None),
    "regular_triangles": (16, 64, 5, 0.0, None), "regular_cliques": (16, 64, 5, 0.0, None),
    "proteins": (16, 8, 5, 0.5, "sum"), "nci1": (32, 32, 5, 0.0, "sum"), "imdb_b": (16, 16, 5, 0.0, "sum"),
    "imdb_m": (32, 16, 5, 0.5, "sum"), "collab": (32, 64, 3, 0.5, "sum"), "mnist": (64, 128, 5, 0.0, "mean"),
    "zinc": (64, 128, 5, 0.0, "sum"),
}  # fmt: skip
BEYOND = {"mutag", "molecule", "zinc_rings", "molhiv", "peptides"}
BEYOND |= {"cycles3", "cycles4", "cycles5", "cycles6", "chordal"}
TU = {"proteins", "nci1", "imdb_b", "imdb_m", "collab"}


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_config_loads_and_holds_the_papers_numbers(path):
    config = load(path)
    assert config.model.name == "pggnn"
    if path.stem in BEYOND:
        return
    batch_size, hidden, layers, dropout, readout = PAPER[path.stem]
    optim, model = config.optim, config.model
    assert (optim.batch_size, model.hidden, model.layers + 1, model.dropout) == (batch_size, hidden, layers, dropout)
    assert readout in (None, model.readout)
    assert (optim.lr, optim.factor, optim.sampling) == (0.001, 0.5, "draws")
    if path.stem in TU:
        assert (optim.schedule, optim.every, optim.steps, optim.epochs) == ("step", 50, 50, 400)
        assert (config.protocol.kind, config.protocol.folds) == ("folds", 10)
    else:
        assert (optim.schedule, optim.min_lr) == ("plateau", 5e-6)
        assert optim.patience == (25 if path.stem in ("er_cliques", "zinc") else 20)
        assert config.protocol.kind == "splits"


@pytest.mark.parametrize("path", sorted((CONFIGS / "best").iterdir()), ids=lambda path: path.stem)
def test_best_configs_have_the_papers_data_and_seeds(path):
    ours, theirs = load(path), load(CONFIGS / f"{path.stem.removesuffix('_bonds')}.yaml")
    assert replace(ours.data, walks=0) == theirs.data
    assert replace(ours.protocol, report=theirs.protocol.report) == theirs.protocol
    assert ours.model != theirs.model, "validation has chosen the paper's own nowhere"
    assert ours.model.edge_features == path.stem.endswith("_bonds")


def test_every_published_run_has_a_config():
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == PAPER.keys() | BEYOND


def test_options_win_over_the_file_and_the_rest_is_default():
    config, resume = parse(["--config", str(CONFIGS / "zinc.yaml"), "--model.hidden", "64", "--resume"])
    assert (config.model.hidden, config.model.layers, resume) == (64, 4, "last")
    assert difference(config, load(CONFIGS / "zinc.yaml")) == ["model.hidden: 64, not 128"]
    assert parse(["--data.name", "ER", "--resume", "previous"]) == (Config(DataConfig("ER")), "previous")


def test_what_no_schedule_reads_is_no_difference():
    given = ["--data.name", "ER", "--optim.patience", "9", "--optim.schedule"]
    (cosine, _), (plateau, _), usual = parse([*given, "cosine"]), parse([*given, "plateau"]), Config(DataConfig("ER"))
    assert difference(cosine, replace(cosine, optim=replace(cosine.optim, patience=20))) == []
    assert difference(plateau, usual) == ["optim.patience: 9, not 20"]
    assert difference(cosine, usual) == ["optim.schedule: cosine, not plateau", "optim.patience: 9, not 20"]


def test_a_name_is_that_of_a_shipped_config_unless_there_is_such_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zinc").mkdir()  # of data, perhaps
    assert parse(["--config", "zinc"])[0].data.name == "ZINC"
    (tmp_path / "mnist").write_text("data: {name: mine.jsonl}")
    assert parse(["--config", "mnist"])[0].data.name == "mine.jsonl"


def test_the_resolved_config_comes_back(tmp_path):
    arguments = {
        "data.name": "a: strange [näme].jsonl", "data.options": "{task: cliques, seed: 3}", "model.orderings": "16",
        "optim.lr": "1e-3", "optim.clip": "0.5", "optim.min_lr": "5e-06", "protocol.seeds": "[0, 2, 4]",
        "run.precision": "64", "run.deterministic": "false", "model.max_degree": "7", "run.out": str(tmp_path),
    }  # fmt: skip
    config, _ = parse([word for key, value in arguments.items() for word in (f"--{key}", value)])
    assert (config.optim.lr, config.run.precision, config.data.options["seed"]) == (0.001, "64", 3)
    save(config, tmp_path)
    assert load(tmp_path) == load(tmp_path / FILE) == config
    written = yaml.safe_load((tmp_path / FILE).read_text())
    assert [f"{part}.{key}" for part in written for key in written[part]] == KEYS, "every option is written out"


@pytest.mark.parametrize("given", ["star rings", "[star,rings]", "[star, rings]"])
def test_lists_need_no_brackets(given):
    config, resume = parse(["--data.name", "ER", "--model.reads", *given.split(), "--resume"])
    assert (config.model.reads, resume) == (["star", "rings"], "last")
    assert parse(["--data.name", "ER", "--protocol.seeds", "3", "4"])[0].protocol.seeds == (3, 4)


def test_a_run_that_was_moved_is_where_it_lies(tmp_path):
    save(parse(["--data.name", "ER", "--run.out", "elsewhere"])[0], tmp_path)
    assert load(tmp_path).folder == tmp_path


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--modle.hidden 3", "there is no option modle.hidden; did you mean model.hidden?"),
        ("--model.hiden 3", "there is no option model.hiden; did you mean model.hidden?"),
        ("--model.hid 3", "there is no option model.hid; did you mean model.hidden?"),
        ("--resum", "there is no option resum; did you mean resume?"),
        ("--optim.learning_rate 3", "there is no option optim.learning_rate"),
        ("--qqq 3", "there is no option qqq; see pggnn train --help"),
        ("stray", "stray stands alone: options are --KEY VALUE, and your own graphs --data.name stray"),
        ("--config zink", "zink; did you mean zinc?"),
        ("--config nowhere.yaml", "nowhere.yaml; those that come with pggnn are best/er_cliques, best/er_triangles"),
        ("--resume first", "invalid choice: 'first' (choose from 'last', 'previous')"),
        ("--model.hidden abc", "model.hidden must be a whole number, got abc"),
        (
            "--model.name gat",
            "model.name must be 'pggnn', 'gin', 'gcn', 'sage', 'rgin', 'rp', 'lrp', 'ign', 'ppgn', 'ringgnn', 'sin', "
            "'cin', 'both-ends', 'dgcnn', 'gatedgcn', "
            "'pna', 'clip', 'deep-lrp', 'wl' or 'wegl', got gat",
        ),
        ("--model.orderings some", "model.orderings must be 'group', 'single', 'random' or a whole number, got some"),
        ("--model.max_degree x", "model.max_degree must be a whole number or null, got x"),
        ("--run.record perhaps", "run.record must be true or false, got perhaps"),
        ("--run.precision 8", "run.precision must be '32', 'tf32', 'bf16', '16' or '64', got 8"),
        ("--protocol.seeds=3", "protocol.seeds must be a list such as [0, 1, 2], got 3"),
        ("--model.reads=rings", "model.reads must be a list such as [star, rings], got rings"),
        (
            "--model.reads star ring",
            "model.reads must be 'star', 'sum', 'rings', 'paths', 'hops', 'rings-one-way' or 'ring-sets', got ring",
        ),
        ("--model.reads --model.hidden 3", "expected one argument"),
        ("--data.options 3", "data.options must be a mapping such as {task: cliques}, got 3"),
        ("--optim.lr nan", "optim.lr must be a number, got nan"),
        ("--optim.lr 0", "optim.lr must be positive, got 0.0"),
        ("--optim.clip -1", "optim.clip must be positive, got -1.0"),
        ("--optim.factor 2", "optim.factor must be above 0 and at most 1, got 2.0"),
        ("--model.dropout 1", "model.dropout must be from 0 to below 1, got 1.0"),
        ("--optim.epochs 0", "optim.epochs must be 1 or more, got 0"),
        ("--model.orderings 0", "model.orderings must be 1 or more, got 0"),
        ("--model.max_degree 0", "model.max_degree must be 1 or more, got 0"),
        ("--protocol.folds 1", "protocol.folds must be 2 or more, got 1"),
        ("--protocol.seeds [1,1]", "protocol.seeds must be different whole numbers from 0 to 4294967295, got [1, 1]"),
        ("--protocol.only [10]", "protocol.only must be different folds from 0 to 9, got [10]"),
        ("--optim.warmup 100", "optim.warmup must be less than optim.epochs, 100, got 100"),
        ("--protocol.seeds [-1]", "protocol.seeds must be different whole numbers from 0 to 4294967295, got [-1]"),
        ("--config nowhere.yaml", "nowhere.yaml"),
    ],
)
def test_mistakes_on_the_command_line_are_one_clear_line(given, message):
    with pytest.raises(ValueError) as error:
        parse(["--data.name", "ER", *given.split()])
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modle: {hidden: 3}", "there is no option modle.hidden; did you mean model.hidden?"),
        ("model: {hiden: 3}", "there is no option model.hiden; did you mean model.hidden?"),
        ("hidden: 3", "there is no option hidden; did you mean model.hidden?"),
        ("data: {name: ER, optoins: {task: cliques}}", "did you mean data.options?"),
        ("model: {hidden: big}", "model.hidden must be a whole number, got big"),
        ("model: {hidden: 8.5}", "model.hidden must be a whole number, got 8.5"),
        ("model: {hidden: true}", "model.hidden must be a whole number, got True"),
        ("model: {hidden: null}", "model.hidden must have a value, or be left out"),
        ("model: null", "model must hold options, such as model.name"),
        ("model: 3", "model must hold options, such as model.name"),
        ("run: {precision: 64}", "run.precision must be '32', 'tf32', 'bf16', '16' or '64', in quotes, got 64"),
        ("optim: {lr: .nan}", "optim.lr must be positive, got nan"),
        ("optim: {lr: .inf}", "optim.lr must be positive, got inf"),
        ("data: {name: 3}", "data.name must be text, got 3"),
        ("data: {name: null}", "which data? give --data.name"),
        ("model: {hidden: 3", "not valid YAML: "),
        ("[1, 2]", "expected options such as model: {hidden: 64}, got '[1, 2]'"),
        ("", "expected options such as"),
    ],
)
def test_mistakes_in_a_file_name_the_file(text, message, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text if "data" in text or text in ("", "[1, 2]") else f"data: {{name: ER}}\n{text}\n")
    with pytest.raises(ValueError) as error:
        load(path)
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))
    assert len(str(error.value).splitlines()) == 1


def test_a_run_needs_data(tmp_path):
    with pytest.raises(ValueError, match="which data"):
        parse([])
    with pytest.raises(ValueError, match="does not exist: expected a YAML file, or the folder of a run"):
        load(tmp_path)
