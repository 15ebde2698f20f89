"""The message with which a verb ends, and that its commands can be typed."""

import logging
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from phrasescore.cli import main, next_step
from tests.command_line import run, succeeded

_DEV = "--source DEV_SOURCE --references DEV_REFERENCES"


class Case(NamedTuple):
    """A command, facts about its run, and the message: its first line and its commands."""

    command: str
    first: str
    commands: str = ""  # one per line
    facts: dict[str, Any] | None = None


CASES = {
    "annotate a table": Case("annotate t --model rnn -o 'my new'", "wrote 'my new'"),
    "annotate a system": Case(
        "annotate system --model rnn -o .",
        "wrote .; next, find the weight of the new column:",
        f"phrasescore tune . {_DEV} -o tuned",
    ),
    "a column": Case(
        "train encoder-decoder /data/phrase-table.gz -o 'the models/rnn'",
        "wrote 'the models/rnn'; next, add the network's score to a system's phrase table:",
        "phrasescore annotate SYSTEM --model 'the models/rnn' -o new-system",
        {"is_of_table": True},
    ),
    "a network of sentences": Case(
        "train rnnsearch train.en train.fr -o rnnsearch",
        "wrote rnnsearch; next, add a line to a system.toml (paths start in its folder), and find "
        "the new weight:",
        f'lists = [{{ model = "rnnsearch" }}]\nphrasescore tune SYSTEM {_DEV} -o tuned',
        {"is_of_table": False},
    ),
    "a network in the search": Case(
        "train cslm train.fr -o 'the cslm'",
        "wrote 'the cslm'; next, add a line to a system.toml (paths start in its folder), and find "
        "the new weight:",
        f'search = [{{ model = "the cslm" }}]\nphrasescore tune SYSTEM {_DEV} -o tuned',
        {"is_of_table": False},
    ),
    "rescore": Case(
        "rescore dev.nbest.gz --source dev.en --model rnnsearch -o dev.rescored.gz",
        "wrote dev.rescored.gz; next, find weights if the lists are of the development text, or "
        "use weights:",
        "phrasescore tune --lists dev.rescored.gz --references REFERENCES --weights START_WEIGHTS "
        "-o weights\n"
        "phrasescore rerank dev.rescored.gz --weights weights -o translations",
    ),
    "tune on lists": Case(
        "tune --lists dev.nbest --references dev.fr --weights start -o found",
        "wrote found; next, translate by lists of the test text that have the same features:",
        "phrasescore rerank TEST_NBEST --weights found -o test.out",
    ),
    "tune a system": Case(
        "tune system --source s --references r --tokenized -o found",
        "wrote found; next, translate with the tuned system:",
        "phrasescore translate found TEXT --tokenized -o TRANSLATIONS",
    ),
    "experiment": Case(
        "experiment x.toml -o 'my out'",
        "wrote 'my out/report/index.html'; next, translate with +RNN, best on dev:",
        "phrasescore translate 'my out' TEXT\nphrasescore serve 'my out'",
        {"output": "my out/report/index.html", "folder": "my out", "choice": "+RNN, best on dev"},
    ),
    "an experiment without a tuned row": Case(
        "experiment x.toml -o out", "wrote out", facts={"folder": None}
    ),
    "rerank": Case(
        "rerank test.rescored --weights w -o test.out",
        "wrote test.out; next, compare the translations with references:",
        "phrasescore evaluate test.out --references REFERENCES",
    ),
    "rerank of whole lists": Case("rerank lists --weights w --nbest new", "wrote new"),
    "build": Case(
        "build train.en train.fr -o model",
        "wrote model; next, choose networks for the system:",
        "phrasescore init model --train train.en train.fr --dev DEV_SOURCE "
        "DEV_REFERENCES --test TEST_SOURCE TEST_REFERENCES -o experiment.toml",
    ),
    "init": Case(
        "init m.ini --train a b --dev c d --test e f -o my.toml",
        "wrote my.toml; next, train, tune and compare the systems:",
        "phrasescore experiment my.toml -o my.out",
    ),
    "export": Case(
        "export joint -o joint.nplm --moses-ini m.ini --moses-ini-out m.joint.ini",
        "wrote joint.nplm, m.joint.ini; next, find the network's weight with a Moses that has "
        "NPLM:",
        f"phrasescore tune --decoder 'moses -f m.joint.ini' {_DEV} -o tuned",
    ),
    "export a system": Case(
        "export system --format moses -o m.ini",
        "wrote m.ini; next, translate with Moses in any folder:",
        "moses -f m.ini < TEXT > TRANSLATIONS",
    ),
    "generate": Case(
        "generate model test.en -o test.out",
        "wrote test.out; next, compare the translations with references:",
        "phrasescore evaluate test.out --references REFERENCES",
    ),
    "score": Case("score a b --model m -o scores", "wrote scores"),
}


def _context(words: list[str]) -> click.Context:
    verb = main.get_command(click.Context(main), words[0])
    assert verb is not None
    return verb.make_context(words[0], words[1:])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_verb_ends_with_its_files_and_commands_that_can_be_typed(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), _context(shlex.split(case.command)):
        next_step.suggest(**case.facts or {})
    first, *commands = caplog.messages[-1].split("\n")
    assert (first, commands) == (case.first, [f"  {line}" for line in case.commands.splitlines()])
    for command in commands:
        program, *words = shlex.split(command)
        if program == "phrasescore":
            _context(words)  # refuses unknown options


def test_nothing_is_added_to_data_on_stdout(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), _context(["rerank", "lists", "--weights", "w"]):
        next_step.suggest()
    assert caplog.messages == []


@pytest.mark.parametrize(("name", "system"), [("moses.ini", "{}/moses.ini"), ("system.toml", "{}")])
def test_the_system_beside_a_table_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, system: str
) -> None:
    (tmp_path / "moses.ini").touch()
    (tmp_path / name).touch()
    words = ["train", "encoder-decoder", str(tmp_path / "table"), "-o", "rnn"]
    with caplog.at_level(logging.INFO), _context(words):
        next_step.suggest(is_of_table=True)
    assert f"annotate {system.format(tmp_path)} --model rnn" in caplog.messages[-1]


@pytest.mark.parametrize(
    ("text", "options", "command"),
    [
        ('tokenize = "fr en"', [], "evaluate out --references REFERENCES --tokenize 13a"),
        ('tokenize = "fr zh"', [], "evaluate out --references REFERENCES --tokenize zh"),
        ('tokenize = "fr en"', ["--tokenized"], "evaluate out --references REFERENCES"),
        (
            'tokenize = "fr hi"\nlowercase = true',
            ["--confidence"],
            "evaluate - --references LOWERCASED_REFERENCES --tokenize intl",
        ),
        ("", [], "evaluate out --references REFERENCES"),
    ],
)
def test_translate_ends_with_the_measure_of_text_as_the_system_writes_it(
    text: str, options: list[str], command: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "moses.ini").touch()
    system = tmp_path / "system.toml"
    system.write_text(f'moses_ini = "moses.ini"\n[text]\n{text}\n')
    with (
        caplog.at_level(logging.INFO),
        _context(["translate", str(system), "text", "-o", "out", *options]),
    ):
        next_step.suggest()
    column = "cut -f 1 out | " if options == ["--confidence"] else ""
    assert caplog.messages[-1] == (
        "wrote out; next, compare the translations with references:\n"
        f"  {column}phrasescore {command}"
    )
    _context(command.split())  # refuses unknown options


def test_a_quiet_verb_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "lists").write_text("0 ||| a ||| LM0= -1 ||| -1\n")
    (tmp_path / "w").write_text("LM0= 1\n")
    words = ("rerank", tmp_path / "lists", "--weights", tmp_path / "w", "-o", tmp_path / "out")
    said = f"phrasescore: wrote {tmp_path}/out; next, compare the translations with references:\n"
    assert said in succeeded(run(*words)).stderr
    assert succeeded(run(*words, "-q")).stderr == ""
