"""How a run's figure came about, in words."""

from pggnn.data.catalogue import CATALOGUE
from pggnn.train.config import Config
from pggnn.train.runs.fitted import is_fitted
from pggnn.train.runs.protocol import CROSS_VALIDATION
from pggnn.train.runs.stored import Run


def describe_protocol(config: Config, kind: str) -> str:
    """How the figure came about, in sentences.

    Args:
        config: The run's.
        kind: Its protocol, with ``"auto"`` resolved where that is known.
    """
    folds = config.protocol.number_of_folds
    own = " The folds are those that came with the data." if config.protocol.folds == "given" else ""
    some = f"{describe_folds(config).capitalize()} alone, not the whole" if config.protocol.only else ""
    if kind == "folds" and not is_fitted(config):
        return (
            f"{some or f'{folds}-fold'} cross-validation as in the paper: the mean over the test folds at the epoch "
            "where that mean "
            "is best. The choice of the epoch has seen the test folds, so the figure flatters; nested cross-validation "
            f"chooses without them.{own}"
        )
    if is_fitted(config):
        return f"{some or f'{folds}-fold'} cross-validation; options were chosen inside the training graphs.{own}"
    last = config.protocol.report == "last"
    when = "after the last epoch" if last else "at the epoch with the best validation figure"
    if kind == "nested":
        return (
            f"{f'{some} nested' if some else f'Nested {folds}-fold'} cross-validation: in each fold a tenth of the "
            f"training graphs validates, and the test fold, which no choice has seen, is measured {when}.{own}"
        )
    parts = {
        "splits": "The data set's own splits",
        "random": "A random split for each seed: 80 % train, 10 % validate, 10 % test",
        "scaffold": "A random split for each seed, all molecules of a scaffold in one part: about 80 % train, 10 % "
        "validate, 10 % test",
    }
    text = f"{parts.get(kind, 'The own splits of the graphs, or random ones if they have none')}. Test {when}."
    if config.protocol.inductive:
        text += " Training saw the training nodes and the edges between them alone."
    if config.data.neighbours:
        text += f" Neighbourhoods are sampled: at most {' × '.join(map(str, config.fan))} neighbours of a node."
    return text


def describe_folds(config: Config) -> str:
    """The folds that are trained."""
    folds, only = config.protocol.number_of_folds, config.protocol.only
    return f"fold{'s' * (len(only) > 1)} {', '.join(map(str, only))} of {folds}" if only else f"{folds} folds"


def describe_epoch(config: Config) -> str:
    """The epoch that a figure is of, in a word or two."""
    if is_fitted(config):
        return "fitted at once"
    if config.protocol.kind == "folds":
        return "best on test folds"
    return "best on validation" if config.protocol.report == "best" else "last"


def describe_spread(run: Run) -> str:
    """What the mean and the deviation are taken over."""
    seeds = [str(seed) for seed in run.config.protocol.seeds]
    named = f"seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}"
    if run.config.protocol.kind not in CROSS_VALIDATION:
        return named
    return f"{describe_folds(run.config)}, {named}" + (", ± over the seeds" if len(seeds) > 1 else "")


def guess_kind(run: Run) -> str:
    """The protocol without a look at the graphs; ``"auto"`` where it depends on them."""
    if run.config.protocol.kind != "auto" or run.data not in CATALOGUE:
        return run.config.protocol.kind
    return "random" if CATALOGUE[run.data].archive else "splits"
