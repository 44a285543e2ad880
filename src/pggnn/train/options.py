"""The options of ``pggnn train``: those of the config, read from the command line and from YAML by jsonargparse."""

import json
import re
import textwrap
import warnings
from argparse import Action, ArgumentError
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, get_type_hints

import jsonargparse
import yaml

from pggnn.data.loading import is_table
from pggnn.files import check_yaml, read_bytes
from pggnn.train import packed
from pggnn.train.config import FILE, KEYS, Config, DataConfig, as_yaml

CONFIGS = Path(__file__).parents[1] / "configs"
"""The configs that come with the library: ``--config zinc`` finds ``zinc.yaml`` here."""
EXAMPLES = """examples:
  pggnn train --data.name MUTAG --protocol.kind folds
  pggnn train --config configs/zinc.yaml --model.hidden 64
  pggnn train --config zinc --model.orderings single
  pggnn train --data.name graphs.jsonl --optim.epochs 50 --run.out runs/mine
  pggnn train --data.name esol.csv --data.target solubility
  pggnn train --config configs/zinc.yaml --resume
  torchrun --nproc-per-node 2 -m pggnn train --config configs/zinc.yaml
"""
_NAMES = {
    "tuple": "a list such as [0, 1, 2]", "list": "a list such as [star, rings]",
    "dict": "a mapping such as {task: cliques}", "int": "a whole number", "float": "a number",
    "bool": "true or false", "str": "text", "NoneType": "null",
}  # fmt: skip
MOLECULE = "molecule"
"""The config that CSV files are trained with where none is given."""
MOST_BYTES = 2**20
"""The largest YAML file that is read."""
MOST_SHOWN = 200
_MODE = "checked yaml"
_PARTS = [part.name for part in fields(Config)]
_DEFAULTS = {key: attrgetter(key)(Config(DataConfig(""))) for key in KEYS}
LISTED = [key for key, value in _DEFAULTS.items() if isinstance(value, list | tuple)]
"""Options that take a list: ``--model.reads star rings`` says the same as ``--model.reads '[star,rings]'``."""
WORDS = ("data.target",)
"""Those of them whose values are text, whatever it looks like."""
FLAGS = [key for key, value in _DEFAULTS.items() if isinstance(value, bool)]
"""Options that are true where nothing follows them."""
jsonargparse.set_parsing_settings(docstring_parse_attribute_docstrings=True)


def _load_yaml(text: str) -> Any:
    check_yaml(text, "a value")
    return jsonargparse.get_loader("yaml")(text)


jsonargparse.set_loader(_MODE, _load_yaml, (yaml.YAMLError,))


HELP = (
    "YAML file with any of the options, or the name of one that comes with pggnn: "
    f"{', '.join(sorted(file.stem for file in CONFIGS.glob('*.yaml')))}; and, chosen by validation, "
    f"{', '.join(sorted(f'best/{file.stem}' for file in CONFIGS.glob('best/*.yaml')))}. Options that follow it win."
)


class _NotOptions(ValueError):
    """A config that is no mapping of options."""


class _TrainFormatter(jsonargparse.DefaultHelpFormatter):
    """Keeps the lines of the examples, does not list choices twice, and breaks long lists of them."""

    def _format_action_invocation(self, action: Action) -> str:
        text = super()._format_action_invocation(action)
        return text if len(text) <= 78 else textwrap.fill(text.replace(",", ", "), 76, subsequent_indent=" " * 6)

    def _expand_help(self, action: Action) -> str:
        return re.sub(r"\(type: Literal\[[^\]]*\], ", "(", super()._expand_help(action))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


@cache
def parser() -> jsonargparse.ArgumentParser:
    """One option for each key of the config, ``--config`` and ``--resume``."""
    made = jsonargparse.ArgumentParser(
        prog="pggnn train",
        usage="pggnn train --data.name DATA [--config FILE] [--resume] [--KEY VALUE …]",
        description="Train a network on a data set of the paper or on your own graphs. "
        "Each option below is a key of the YAML file as well.",
        epilog=EXAMPLES,
        formatter_class=_TrainFormatter,
        parser_mode=_MODE,
        exit_on_error=False,
        allow_abbrev=False,
    )
    made.add_argument("--config", action="config", help=HELP)
    made.add_argument(
        "--resume", nargs="?", const="last", default=None, choices=["last", "previous"],
        help="Go on with the run in this folder, from its last checkpoint or from the one before.",
    )  # fmt: skip
    for part, kind in get_type_hints(Config).items():
        made.add_argument(f"--{part}", type=kind)
    return made


def parse(arguments: Sequence[str]) -> tuple[Config, str | None]:
    """The config that the arguments describe, and whether to resume; a mistake is a ``ValueError`` of one sentence."""
    default = default_config(arguments)
    words, configs = _find_configs(_complete([*(["--config", default] if default else []), *arguments]))
    try:
        found = _instantiate(lambda made: made.parse_args(words))
    except _NotOptions as error:
        raise ValueError(f"{', '.join(configs)}: {error}") from None
    return Config(**{part: getattr(found, part) for part in _PARTS}), found.resume


def default_config(arguments: Sequence[str]) -> str | None:
    """The config of arguments that name none: that of molecules for a CSV file."""
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    names = [value for key, value in pairwise(words) if key == "--data.name"]
    return MOLECULE if "--config" not in words and names and is_table(names[-1]) else None


def defaults(name: str) -> Config:
    """What the options for these data are where nothing is said of them."""
    if not is_table(name):
        return Config(DataConfig(""))
    config = load(CONFIGS / f"{MOLECULE}.yaml")
    return replace(config, data=replace(config.data, name=""))


@cache
def _parse_yaml(text: str) -> Config:
    """The config of a file that says this; a table's runs are read again and again."""
    found = _instantiate(lambda made: made.parse_string(text))
    return Config(**{part: getattr(found, part) for part in _PARTS})


def _instantiate(parse: Callable[[jsonargparse.ArgumentParser], Any]) -> Any:
    made = parser()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            parsed = parse(made)
            for part in _PARTS:
                if not isinstance(parsed[part], jsonargparse.Namespace):
                    raise ValueError(_no_options(part))
            return made.instantiate(parsed)
        except ArgumentError as error:
            said = str(error)
            if whole := re.search(r"(?:(Unexpected)|Problems parsing) config:\s*(.*)", said, re.DOTALL):
                text = " ".join(whole[2].split())[:MOST_SHOWN]
                expected = f"expected options such as model: {{hidden: 64}}, got {text!r}"
                raise _NotOptions(expected if whole[1] else f"not valid YAML: {text}") from None
            raise ValueError(_explain(said)) from None


def _complete(arguments: Sequence[str]) -> list[str]:
    """The arguments with ``["star","rings"]`` instead of ``star rings`` after an option that takes a list, with true
    after one that nothing follows, and with ``_`` in names that are written with ``-``."""
    found: list[str] = []
    key, values = "", list[str]()
    for argument in [*arguments, "--"]:
        if key in LISTED and not argument.startswith("--"):
            values.append(argument)
            continue
        if values and values[0].startswith("[") and (key not in WORDS or _is_list(values)):
            found.append(" ".join(values))
        elif values:
            plain = key not in WORDS and all(re.fullmatch(r"-?\d+", value) for value in values)
            found.append(f"[{','.join(values)}]" if plain else json.dumps(values, ensure_ascii=False))
        if key in FLAGS and argument.startswith("--"):
            found.append("true")
        if argument.startswith("--"):
            name, equals, value = argument.partition("=")
            argument = f"{name[:2]}{name[2:].replace('-', '_')}{equals}{value}"
        key, values = argument.removeprefix("--"), []
        found.append(argument)
    return found[:-1]


def _is_list(values: list[str]) -> bool:
    """Whether they are a list of texts in JSON, as Python and YAML write one, and not a column such as [nM]."""
    try:
        return len(values) == 1 and all(isinstance(one, str) for one in json.loads(values[0]))
    except ValueError:
        return False


def _find_configs(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments with paths instead of names of configs that come with the library and of folders of runs, and the
    paths that are the user's own."""
    found, own = [], []
    for before, argument in zip(["", *arguments], arguments, strict=False):
        name = argument.removeprefix("--config=")
        if before == "--config" or name != argument:
            given, shipped = Path(name), CONFIGS / f"{name}.yaml"
            if not given.is_file() and not shipped.exists() and (given / FILE).is_file():
                given = given / FILE
            if given.is_file():
                _read(given)
                own.append(str(given))
                argument = argument.removesuffix(name) + str(given)
            elif shipped.exists():
                argument = argument.removesuffix(name) + str(shipped)
            elif packed.holds(given):
                argument = argument.removesuffix(name) + as_yaml(packed.read_config(given))
        found.append(argument)
    return found, own


def _read(file: Path) -> str:
    """The text of a YAML file that is safe to parse."""
    try:
        text = read_bytes(file, MOST_BYTES).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from None
    check_yaml(text, file)
    return text


def load(path: str | Path) -> Config:
    """The config of a YAML file, or of the run in a folder, wherever that lies now."""
    path = Path(path)
    kept = packed.holds(path)
    file = path / FILE if path.is_dir() and not kept else path
    if not kept and not file.is_file():
        raise ValueError(f"{file} does not exist: expected a YAML file, or the folder of a run")
    text = as_yaml(packed.read_config(path)) if kept else _read(file)
    try:
        config = _parse_yaml(text)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    return replace(config, run=replace(config.run, out=str(path))) if kept or path.is_dir() else config


def _explain(error: str) -> str:
    """The parser's message, with the nearest right name where a name is wrong."""
    unknown = (
        re.search(r"unrecognized arguments: --([\w.]+)", error)
        or re.search(r"Group '(?P<group>[\w.]+)' does not accept option '(?P<key>[\w.]+)'", error)
        or re.search(r"[Oo]ption '([\w.]+)' is not accepted", error)
    )
    if unknown:
        name = ".".join(unknown.groups())
        near = [key for key in KEYS if key.startswith(name)] or get_close_matches(
            name, [*KEYS, "config", "resume"], 1, 0.5
        )
        return f"there is no option {name}" + (f"; did you mean {near[0]}?" if near else "; see pggnn train --help")
    stray = re.search(r"unrecognized arguments: (\S+)", error)
    if stray:
        return f"{stray[1]} stands alone: options are --KEY VALUE, and your own graphs --data.name {stray[1]}"
    absent = re.search(r"File does not exist: '([^']*)'", error)
    if absent:
        shipped = sorted(file.relative_to(CONFIGS).with_suffix("").as_posix() for file in CONFIGS.rglob("*.yaml"))
        near = get_close_matches(Path(absent[1]).stem, shipped, 1)
        meant = f"; did you mean {near[0]}?" if near else f"; those that come with pggnn are {', '.join(shipped)}"
        return f"there is no config {absent[1]}{meant}"
    if 'Key "data.name" is required' in error or ("data.name" in error and "required" in error):
        return "which data? give --data.name with a data set (pggnn data list) or a file of graphs, or a --config"
    wrong = re.search(r'Parser key "([\w.]+)":\s*(.*)', error, re.DOTALL)
    one_line = " ".join(error.split())
    if not wrong:
        return one_line
    if wrong[1] in _PARTS:
        return _no_options(wrong[1])
    kinds = ", ".join(dict.fromkeys(re.findall(r"Expected a ([^\n]+?)(?:\. Got value|\n|$)", wrong[2])))
    kinds = re.sub(r"typing\.Literal\[([^\]]*)\]|<class '(\w+)'>", lambda m: m[1] or m[2], kinds)
    *others, last = [_NAMES.get(kind, kind) for kind in kinds.split(", ")]
    expected = f"{', '.join(others)} or {last}" if others else last
    value = re.search(r"(?:Got value|Given value): (.*)", wrong[2])
    if not expected or not value:
        return one_line.replace('Parser key "config": ', "")
    quoted = ", in quotes" if f"'{value[1]}'" in expected else ""
    return f"{wrong[1]} must be {expected}{quoted}, got {value[1]}"


def _no_options(part: str) -> str:
    return f"{part} must hold options, such as {next(key for key in KEYS if key.startswith(part))}"
