"""The message with which a verb ends: the files it wrote, and the command for the next step.

The command has the file names of this run. Words in capitals stand for files that are unknown here.
"""

import logging
import os
import shlex
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click

_logger = logging.getLogger(__name__)

Given = dict[str, Any]  # a verb's parameters, and facts about its run
Step = tuple[str, list[list[str]]]  # the purpose of the next step, and its commands

_WRITTEN = (
    *("output", "target_output", "moses_ini_out", "report", "features_out"),
    *("translations", "word_scores", "segments", "explain", "differences", "plot"),
)
_DEV = ["--source", "DEV_SOURCE", "--references", "DEV_REFERENCES"]
_INI = "MOSES_INI"
_SEARCHED = ("cslm", "joint")  # kinds of networks that the search can use


def suggest(**facts: Any) -> None:
    """Log where the results of the current verb are, and what to do next.

    :param facts: what the next step depends on besides the verb's parameters.
    """
    context = click.get_current_context()
    given: Given = {**context.params, **facts}
    names = [given.get(name) for name in _WRITTEN]
    if isinstance(lists := given.get("nbest"), tuple):  # the option FILE N, and no argument
        names.append(lists[0])
    files = [shlex.quote(str(name)) for name in names if name not in (None, "-")]
    if not files:
        return  # the result is on stdout, where data is all that is wanted
    lines = [f"wrote {', '.join(files)}"]
    find = _NEXT.get(str(context.command.name))
    step = None if find is None else find(given)
    if step is not None:
        purpose, commands = step
        lines[0] += f"; next, {purpose}:"
        lines += [f"  {shlex.join(words)}" for words in commands]
    _logger.info("%s", "\n".join(lines))


def _ours(*words: object) -> list[str]:
    return ["phrasescore", *map(str, words)]


def _tagged(path: str, tag: str) -> str:
    """Return a name in the working folder: ``phrase-table.rnn.gz`` from ``phrase-table.gz``."""
    name = Path(path).name
    for ending in (".gz", ".ini"):
        if name.endswith(ending):
            return f"{name.removesuffix(ending)}.{tag}{ending}"
    return f"{name}.{tag}"


def _is_file(path: str | None) -> bool:
    return path not in (None, "-")


def _tune_rounds(ini: str, *more: str) -> list[str]:
    new = _tagged("moses.ini" if ini == _INI else ini, "tuned")
    tuned = ("--moses-ini-out", new, "-o", "weights")
    return _ours("tune", "--decoder", "embedded", "--config", ini, *_DEV, *more, *tuned)


def _after_train(given: Given) -> Step:
    kind, model = given["kind"], given["output"]
    if kind in _SEARCHED:
        flags = shlex.join(["--feature", kind, "--model", model])
        command = _tune_rounds(_INI, "--decoder-flags", flags)
        return "use the network in the search, and find its weight", [command]
    if given["is_of_table"]:
        table = given["inputs"][0] if given["inputs"] else "TABLE"
        table = "TABLE" if table == "-" else table
        beside = str(Path(table).with_name("moses.ini"))
        ini = beside if os.path.isfile(beside) else _INI
        tag = Path(model).name
        new = _tagged("moses.ini", tag)
        command = _ours("annotate", table, "--model", model, "-o", _tagged(table, tag))
        return "add the network's score to the phrase table", [
            [*command, "--moses-ini", ini, "--moses-ini-out", new]
        ]
    command = _ours("rescore", "NBEST", "--source", "SOURCE", "--model", model)
    return "add the network's score to n-best lists", [[*command, "-o", "NBEST.rescored"]]


def _after_new_column(given: Given) -> Step | None:
    ini = given["moses_ini_out"]
    if ini is None:
        return None
    return "find the weight of the new column", [_tune_rounds(ini)]


def _after_rescore(given: Given) -> Step | None:
    lists = given["output"]
    if not _is_file(lists):
        return None
    first = ("--references", "REFERENCES", "--moses-ini", _INI, "-o", "weights")
    return "find weights on the lists of a development text, or use them to choose translations", [
        _ours("tune", lists, *first),
        _ours("rerank", lists, "--weights", "weights", "-o", "translations"),
    ]


def _after_combine(given: Given) -> Step | None:
    lists = given["output"]
    first = ("--references", "REFERENCES", "--weights", "WEIGHTS", "-o", "weights")
    return "find weights for the merged lists", [_ours("tune", lists, *first)]


def _has_features(ini: str, names: Collection[str]) -> bool:
    from moses_integration.moses_ini import MosesIni

    return set(names) <= MosesIni.read(ini).tuneable_weights().keys()


def _after_tune(given: Given) -> Step | None:
    """Return how to translate with the weights: by the search, by lists, or by both."""
    purpose = "translate with these weights"
    weights = ("--weights", given["output"] if _is_file(given["output"]) else "WEIGHTS")
    decoder, ini, added = given["decoder"], given["moses_ini_out"], given["rescore_options"]
    if decoder is None and not (_is_file(ini) and _has_features(ini, given["names"])):
        return purpose, [_ours("rerank", "TEST_NBEST", *weights, "-o", "test.out")]
    lists = ("test.nbest", str(given["nbest_size"])) if added else ()
    if decoder is None or decoder == "embedded":
        flags = shlex.split(given["decoder_flags"])
        tuned = ("--config", ini) if decoder is None else ("--config", given["moses_ini"], *weights)
        nbest = ("--nbest", *lists, "--distinct") if lists else ()
        decode = _ours("decode", "TEST", *tuned, *flags, *nbest, "-o", "test.out")
    elif "{nbest}" in decoder:  # a decoder whose options are unknown
        decode = []
    else:
        own = ini or os.path.join(given["folder"], "moses.ini")
        nbest = ("-n-best-list", *lists, "distinct") if lists else ()
        decode = [shlex.split(decoder)[0], "-f", own, "-i", "TEST", *nbest]
    commands = [decode] if decode else []
    if added:
        rescored = ("rescore", "test.nbest", "--source", "TEST", *added, "-o", "test.rescored")
        chosen = ("rerank", "test.rescored", *weights, "-o", "test.reranked")
        commands += [_ours(*rescored), _ours(*chosen)]
    return (purpose, commands) if commands else None


def _after_translation(given: Given) -> Step | None:
    output = given["output"]
    if not _is_file(output) or given.get("as_lists") or given.get("reverse"):
        return None
    return "compare the translations with references", [
        _ours("evaluate", output, "--references", "REFERENCES")
    ]


def _after_decode(given: Given) -> Step | None:
    if given["nbest"] is None or given["nbest"][0] == "-" or given["source"] == "-":
        return _after_translation(given)
    lists = given["nbest"][0]
    command = _ours("rescore", lists, "--source", given["source"], "--model", "MODEL")
    return "add a network's score to the lists", [[*command, "-o", _tagged(lists, "rescored")]]


def _after_generate(given: Given) -> Step | None:
    return _after_translation(given) if given["augment"] is None else _after_new_column(given)


def _after_build(given: Given) -> Step:
    texts = ("--train", given["source"], given["target"], "--dev", *_DEV[1::2])
    texts += ("--test", "TEST_SOURCE", "TEST_REFERENCES", "-o", "experiment.toml")
    return "choose networks for the system", [_ours("init", f"{given['output']}/moses.ini", *texts)]


def _after_init(given: Given) -> Step:
    config = given["output"]
    folder = f"{config.removesuffix('.toml')}.out"
    return "train, tune and compare the systems", [_ours("experiment", config, "-o", folder)]


def _after_experiment(given: Given) -> Step | None:
    row = given["row"]
    if not row.system:
        return None
    return f"translate with {row.name}", [
        _ours("translate", os.path.relpath(row.system), "TEXT", "-o", "TRANSLATIONS")
    ]


def _after_export(given: Given) -> Step | None:
    ini = given["moses_ini_out"]
    if ini is None:
        return None
    weights = ("--moses-ini-out", _tagged(ini, "tuned"), "-o", "weights")
    return "find the network's weight with a Moses that has NPLM", [
        _ours("tune", "--decoder", shlex.join(["moses", "-f", ini]), *_DEV, *weights)
    ]


def _after_report(given: Given) -> Step:
    return "open the page in a browser", [[f"{given['output']}/index.html"]]


_NEXT: dict[str, Callable[[Given], Step | None]] = {
    "annotate": _after_new_column,
    "build": _after_build,
    "combine": _after_combine,
    "decode": _after_decode,
    "experiment": _after_experiment,
    "export": _after_export,
    "generate": _after_generate,
    "init": _after_init,
    "report": _after_report,
    "rerank": _after_translation,
    "rescore": _after_rescore,
    "segment": _after_translation,
    "train": _after_train,
    "tune": _after_tune,
}
