"""The message with which a verb ends: the files it wrote, and the command for the next step.

The command has the file names of this run. Words in capitals stand for files that are unknown here.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import click

from phrasescore.settings.toml_file import to_toml

_logger = logging.getLogger(__name__)

Given = dict[str, Any]  # a verb's parameters, and facts about its run
Step = tuple[str, Sequence[str]]  # the purpose of the next step, and its commands

_WRITTEN = (
    *("output", "target_output", "moses_ini_out", "report"),
    *("segments", "explain", "nbest_file"),
)
_DEV = "--source DEV_SOURCE --references DEV_REFERENCES"
# sacrebleu's tokenizers for target languages whose marks or words 13a does not separate.
_TOKENIZERS = {
    **dict.fromkeys(("am", "ar", "as", "bn", "fa", "hi", "ne", "or", "pa", "ti", "ur"), "intl"),
    **dict.fromkeys(("yue", "zh"), "zh"),
    **dict.fromkeys(("ja", "km", "lo", "my", "th"), "flores200"),
}
_SEARCHED = ("cslm", "joint")  # kinds of networks that the search can use


def suggest(**facts: Any) -> None:
    """Log where the results of the current verb are, and what to do next.

    :param facts: what the next step depends on besides the verb's parameters.
    """
    context = click.get_current_context()
    given: Given = {**context.params, **facts}
    names = [given.get(name) for name in _WRITTEN]
    files = [quote(str(name)) for name in names if name not in (None, "-")]
    if not files:
        return  # the result is on stdout, where data is all that is wanted
    said = f"wrote {', '.join(files)}"
    find = _NEXT.get(str(context.command.name))
    step = None if find is None else find(given)
    if step is not None:
        said += "\n  ".join([f"; next, {step[0]}:", *step[1]])
    _logger.info("%s", said)


def _tune(system: str) -> str:
    return f"phrasescore tune {system} {_DEV} -o tuned"


def _after_train(given: Given) -> Step | None:
    kind, model = given["kind"], given["output"]
    if given["is_of_table"]:
        command = f"phrasescore annotate {_system_of(given['inputs'])} --model {quote(model)}"
        return "add the network's score to a system's phrase table", [f"{command} -o new-system"]
    key = "search" if kind in _SEARCHED else "lists"
    purpose = "add a line to a system.toml (paths start in its folder), and find the new weight"
    return purpose, [f"{key} = [{{ model = {to_toml(model)} }}]", _tune("SYSTEM")]


def _system_of(inputs: Sequence[str]) -> str:
    """Return the quoted name of the system beside a phrase table, or "SYSTEM" if there is none."""
    folder = next((Path(path).parent for path in inputs if path != "-"), Path())
    names = [folder] if (folder / "system.toml").is_file() else [folder / "moses.ini"]
    return next((quote(str(name)) for name in names if name.exists()), "SYSTEM")


def _after_new_column(given: Given) -> Step | None:
    if not Path(given["output"]).is_dir():
        return None
    return "find the weight of the new column", [_tune(quote(given["output"]))]


def _after_export(given: Given) -> Step | None:
    if given["format"] == "moses":
        command = f"moses -f {quote(given['output'])} < TEXT > TRANSLATIONS"
        return "translate with Moses in any folder", [command]
    if (ini := given["moses_ini_out"]) is None:
        return None
    decoder = f"--decoder {quote(f'moses -f {quote(ini)}')}"
    return "find the network's weight with a Moses that has NPLM", [_tune(decoder)]


def _after_lists(given: Given) -> Step:
    lists, start = quote(given["output"]), "--weights START_WEIGHTS"
    return "find weights if the lists are of the development text, or use weights", [
        f"phrasescore tune --lists {lists} --references REFERENCES {start} -o weights",
        f"phrasescore rerank {lists} --weights weights -o translations",
    ]


def _after_tune(given: Given) -> Step:
    output = quote(given["output"])
    if given["lists"]:
        command = f"phrasescore rerank TEST_NBEST --weights {output} -o test.out"
        return "translate by lists of the test text that have the same features", [command]
    words = " --tokenized" * given["tokenized"]
    command = f"phrasescore translate {output} TEXT{words} -o TRANSLATIONS"
    return "translate with the tuned system", [command]


def _after_translation(given: Given) -> Step | None:
    if (output := given["output"]) == "-":
        return None
    command = f"phrasescore evaluate {quote(output)} --references REFERENCES"
    return "compare the translations with references", [command]


def _after_system(given: Given) -> Step | None:
    """Return how to measure text as the system writes it: detokenised, or in lower case."""
    from phrasescore.systems.system import read_system

    if (output := given["output"]) == "-":
        return None
    text, references = read_system(given["system"]).text, "REFERENCES"
    if text.lowercase and not given["tokenized"]:
        references = "LOWERCASED_REFERENCES"
    if text.tokenize and not given["tokenized"]:
        references += f" --tokenize {_TOKENIZERS.get(text.tokenize.split(' ')[1], '13a')}"
    text_file, cut = quote(output), ""
    if given["confidence"]:  # a column after the translations
        text_file, cut = "-", f"cut -f 1 {quote(output)} | "
    command = f"phrasescore evaluate {text_file} --references {references}"
    return "compare the translations with references", [cut + command]


def _after_build(given: Given) -> Step:
    texts = f"--train {quote(given['source'])} {quote(given['target'])} --dev DEV_SOURCE "
    texts += "DEV_REFERENCES --test TEST_SOURCE TEST_REFERENCES -o experiment.toml"
    system = quote(given["output"])
    return "choose networks for the system", [f"phrasescore init {system} {texts}"]


def _after_init(given: Given) -> Step:
    config = given["output"]
    folder = quote(f"{config.removesuffix('.toml')}.out")
    command = f"phrasescore experiment {quote(config)} -o {folder}"
    return "train, tune and compare the systems", [command]


def _after_experiment(given: Given) -> Step | None:
    if (folder := given["folder"]) is None:
        return None
    commands = [f"phrasescore translate {quote(folder)} TEXT", f"phrasescore serve {quote(folder)}"]
    return f"translate with {given['choice']}", commands


_NEXT: dict[str, Callable[[Given], Step | None]] = {
    "annotate": _after_new_column,
    "build": _after_build,
    "experiment": _after_experiment,
    "export": _after_export,
    "generate": _after_translation,
    "init": _after_init,
    "rerank": _after_translation,
    "rescore": _after_lists,
    "segment": _after_translation,
    "train": _after_train,
    "translate": _after_system,
    "tune": _after_tune,
}
