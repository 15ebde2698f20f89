"""Reading and writing a system, and the errors of a file that is written by hand."""

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moses_integration.decoder.moses import DecoderCommand
from phrasescore.errors import PhrasescoreError
from phrasescore.features.model import Network
from phrasescore.features.named import NamedFeature
from phrasescore.features.program import Command
from phrasescore.records import ConfidenceCurve, WeightPair
from phrasescore.systems.folder import write_system
from phrasescore.systems.system import Moses, System, read_system
from phrasescore.systems.text import TextProcessing
from phrasescore.workflows.show import Overview, show
from tests.small_system import CONFIDENCE, INI, SYSTEM, WEIGHTS
from tests.small_system import write_system as write_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_files(tmp_path)


def ready(path: str = ".") -> str:
    """Return "yes", or the first fault that ``show`` finds in a system."""
    shown = show(path)
    assert isinstance(shown, Overview)
    return shown.facts["ready"]


def test_a_system_has_the_parts_in_its_file(folder: Path) -> None:
    system = read_system("system.toml")
    assert system == replace(read_system(folder), path="system.toml")
    assert (system.path, system.moses_ini) == ("system.toml", folder / "moses.ini")
    assert system.search == (Network(str(folder / "cslm")),)
    assert system.lists == (Network(str(folder / "rnnsearch")), NamedFeature("unknown_words"))
    assert system.search_names == ("CSLM0",)
    assert system.weights.search["CSLM0"] == (0.25,)
    assert system.weights.lists["RNNsearch0"] == (3.0,)
    assert (system.nbest_size, system.limits) == (9, {"stack": 30})
    assert ready() == "yes"


def test_a_moses_ini_is_a_system_with_its_own_weights(folder: Path) -> None:
    system = read_system("moses.ini")
    assert system.moses_ini == folder / "moses.ini"
    own = {"WordPenalty0": (-0.5,), "TM0": (1, 0), "Distortion0": (1,), "LM0": (0.5,)}
    assert system.weights == WeightPair(own, own)
    assert ready("moses.ini") == "yes"


def test_a_feature_of_the_lists_that_is_unknown_is_refused(folder: Path) -> None:
    (folder / "system.toml").write_text(SYSTEM.replace("unknown_words", "unknown_wordz"))
    with pytest.raises(PhrasescoreError, match=r"system\.toml: lists: feature 'unknown_wordz'"):
        read_system("system.toml")


@pytest.mark.parametrize("is_beside", [True, False])
def test_a_feature_has_as_many_weights_as_in_the_moses_ini(folder: Path, is_beside: bool) -> None:
    (folder / "weights").write_text(WEIGHTS.replace("TM0= 1 0", "TM0= 1"))
    if not is_beside:
        (folder / "own").mkdir()
        text = SYSTEM.replace('"cslm"', '"../cslm"').replace('"rnnsearch"', '"../rnnsearch"')
        text = text.replace('"moses.ini"', '"../moses.ini"').replace('"weights"', '"../weights"')
        (folder / "own" / "system.toml").write_text(text)
    with pytest.raises(PhrasescoreError, match="expected 2 weights for TM0, found 1"):
        read_system("." if is_beside else "own")


@pytest.mark.usefixtures("folder")
def test_settings_of_the_command_line_replace_those_in_the_file() -> None:
    changed = read_system(".", ["limits.stack=10", "limits.search-algorithm=cube", "nbest_size=5"])
    assert changed.limits == {"stack": 10, "search-algorithm": "cube"}
    assert changed.nbest_size == 5


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("stack=10", "--set: expected limits.NAME=VALUE, such as limits.stack=30"),
        ("limits.stak=10", "[limits] stak: unknown limit; did you mean 'stack'?"),
        ("limits.stack=x", "[limits] stack: expected a whole number from 0, got 'x'"),
        ("nbest_size=0", "nbest_size: expected at least 1, got 0"),
    ],
)
def test_a_wrong_setting_is_an_error(change: str, problem: str) -> None:
    with pytest.raises(PhrasescoreError) as found:
        read_system(".", [change])
    assert problem in str(found.value)


# Faults in system.toml: (the part that changes, its new text, the error)
FILE_FAULTS = [
    ('"weights"', '"weight"', "weight: system.toml names it: cannot open: No such file"),
    ('"moses.ini"', '"moses"', "moses: system.toml names it: cannot open: No such file"),
    ('moses_ini = "moses.ini"\n', "", "moses_ini: is missing: expected a moses.ini"),
    ('"rnnsearch"', '"lstm"', "system.toml: lists: there is no model"),
    ('"cslm"', '"none"', "system.toml: search: there is no model"),
    (
        'search = [{ model = "cslm" }]',
        'search = [{ model = "rnnsearch" }]',
        "expected a model of the kind cslm or joint, found one of rnnsearch; it belongs in lists",
    ),
    ('model = "cslm"', 'feature = "unknown_words"', "search: expected models of the kind cslm or"),
    ('search = [{ model = "cslm" }]', "search = 1", "search: expected a list of tables, got 1"),
    ('model = "cslm"', 'model = "cslm", speed = 1', "unknown key 'speed' in [search 1]"),
    (
        'model = "rnnsearch"',
        'model = "rnnsearch", unnormalized = true',
        "lists: unnormalized requires a model of the kind cslm or joint",
    ),
    ("{ feature =", "{ features =", "unknown kind of column 'features'; did you mean 'feature'?"),
    ('feature = "unknown_words"', 'lm = "none.arpa"', "none.arpa: system.toml names it: cannot"),
    ("nbest_size = 9", "nbest_sise = 9", "unknown key 'nbest_sise'; did you mean 'nbest_size'?"),
    ("nbest_size = 9", "nbest_size = 0", "nbest_size: expected at least 1, got 0"),
    ("stack = 30", "stak = 30", "[limits] stak: unknown limit; did you mean 'stack'?"),
    ("stack = 30", "stack = -1", "[limits] stack: expected a whole number from 0, got -1"),
    ("stack = 30", "stack = true", "[limits] stack: expected a whole number from 0, got True"),
    (
        'feature = "unknown_words"',
        'command = "no-program --fast"',
        "system.toml: [lists 2] command: there is no program 'no-program'",
    ),
    (
        'search = [{ model = "cslm" }]',
        'decoder = { command = "no-decoder {nbest}" }',
        "system.toml: [decoder] command: there is no program 'no-decoder'",
    ),
    (
        'search = [{ model = "cslm" }]',
        'decoder = { moses = "none" }',
        "none/moses: system.toml names it: cannot open: No such file",
    ),
    ('search = [{ model = "cslm" }]', "decoder = {}", "[decoder]: expected either moses = FOLDER"),
    (
        "nbest_size = 9",
        'decoder = { command = "cat {nbest}" }',
        "search: networks in the search require the search of this package",
    ),
    (CONFIDENCE, "confidence = { slope = 0 }", "[confidence] slope: expected a number above 0"),
    ("nbest_size = 9", 'text = { tokenize = "fr" }', "expected the languages of source and"),
    ("nbest_size = 9", 'text = { truecase_source = "no" }', "no: system.toml names it: cannot"),
]
# Faults in weights.
WEIGHT_FAULTS = [
    ("CSLM0= 0.25\n", "", "weights: no weight for the search's feature CSLM0"),
    ("LM0= 0.5\n", "", "weights: no weight for the search's feature LM0"),
    ("LM0= 0.5", "LM0= 0.5\nPhrasePenalty0= 5", "PhrasePenalty0_0 is 5, and 0.25 in"),
    ("RNNsearch0= 3\n", "", "no weight for RNNsearch0, a feature of the n-best lists"),
    ("RNNsearch0= 3", "RNNsearch0= 3\nLSTM0= 1", "a weight for LSTM0, a feature that the n-best"),
    ("RNNsearch0= 3", "RNNsearch0= 3 1", "expected 1 weights for RNNsearch0, found 2"),
    ("TM0= 1 0", "TM0= 1 0\nLM1= 1", "a weight for LM1, a feature that the search lacks"),
    ("[lists]", "[lists]\nBad0= 1", "a weight for Bad0, a feature that the n-best lists lack"),
    ("TM0= 1 0", "TM0= 1", "expected 2 weights for TM0, found 1"),
    ("TM0= 0.5 0.5", "TM0= 1", "weights: expected 2 weights for TM0, found 1"),
    ("TM0= 1 0", "TM0= 1 0.5", "TM0_1 is 0.5, and 0 in {folder}/moses.ini: correct one of them"),
    ("WordPenalty0= -0.5", "WordPenalty0= x", "weights:2: expected a number as weight for Word"),
]
# Faults in moses.ini.
INI_FAULTS = [
    (
        "Distortion\n",
        "Distortion\nPhraseDictionaryMemory name=TM1 num-features=2 path=table\n",
        "moses.ini:11: [feature] TM1: expected one PhraseDictionaryMemory, because this search",
    ),
    (
        "Distortion\n",
        "Distortion\nNeuralLM name=NLM0 path=nlm\n",
        "moses.ini:11: [feature] NLM0: this search does not support NeuralLM; set its weights to 0",
    ),
    ("path=table", "path=moved", "moses.ini:9: [feature] TM0: cannot open {folder}/moved: there "),
]


def first_fault(name: str, content: str) -> str:
    Path(name).write_text(content)
    try:
        return ready("system.toml")
    except PhrasescoreError as error:
        return str(error)


@pytest.mark.parametrize(
    ("name", "content", "old", "new", "problem"),
    [
        *(("system.toml", SYSTEM, *fault) for fault in FILE_FAULTS),
        *(("weights", WEIGHTS, *fault) for fault in WEIGHT_FAULTS),
        *(("moses.ini", INI + "TM1= 1 1\nNLM0= 1\n", *fault) for fault in INI_FAULTS),
    ],
)
def test_a_fault_is_named_in_one_line(
    folder: Path, name: str, content: str, old: str, new: str, problem: str
) -> None:
    assert old in content
    found = first_fault(name, content.replace(old, new, 1))
    assert problem.format(folder=folder) in found
    assert "\n" not in found


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("none", "none: cannot open: No such file or directory"),
        ("none.toml", "none.toml: cannot open: No such file or directory"),
        ("cslm", "cslm: expected a system: a folder with system.toml, or a moses.ini; found none"),
        ("only-ini", "only-ini/moses.ini is one with its own weights"),
        ("nbest", "nbest:1: expected a system: a folder with system.toml, or a moses.ini"),
        ("table", "table:1: expected a system: a folder with system.toml, or a moses.ini"),
        ("weights", "weights:1: expected a system: a folder with system.toml, or a moses.ini"),
        ("-", "-: expected a system: a folder with system.toml, or a moses.ini; found a stream"),
    ],
)
def test_what_is_no_system_is_refused(path: str, problem: str) -> None:
    Path("nbest").write_text("0 ||| the house ||| LM0= -1 ||| -1\n")
    Path("only-ini").mkdir()
    shutil.copy("moses.ini", "only-ini")
    with pytest.raises(PhrasescoreError) as found:
        read_system(path)
    assert problem in str(found.value)


# Writing


def changed_system(folder: Path, **parts: Any) -> System:
    return replace(read_system(folder), **parts)


PARTS: dict[str, dict[str, Any]] = {
    "the same": {},
    "options of columns": {
        "search": (Network("cslm", backoff_lm="lm.arpa"),),
        "lists": (Network("rnnsearch", name='a "name"'),),
        "columns": (Network("cslm", name="TM0_1"),),
    },
    "a program": {"lists": (Command("cat -", timeout=5),)},
    "Moses": {"search": (), "decoder": Moses(Path("bin"))},
    "a decoder": {"search": (), "decoder": DecoderCommand("bin/moses -f moses.ini {nbest}")},
    "limits and confidence": {
        "limits": {"beam-threshold": 0.5, "drop-unknown": True, "search-algorithm": "cube"},
        "confidence": ConfidenceCurve(0.5, 2.0, -1.0),
        "nbest_size": 7,
    },
    "text": {"text": TextProcessing("fr en", False, Path("case"), None, True)},
    "text of which the moses.ini says nothing": {"text": TextProcessing()},
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("where", ["new", "."])
def test_a_written_system_is_read_again(folder: Path, parts: dict[str, Any], where: str) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "moses").write_text("#!/bin/sh\n")
    (folder / "bin" / "moses").chmod(0o755)
    (folder / "case").write_text("la (1/1)\n")
    system = changed_system(folder, **parts)
    write_system(system, folder / where)
    assert Path(where, "system.toml").read_text().count(str(folder)) == 0
    found = read_system(folder / where)
    kept = ("weights", "nbest_size", "limits", "confidence")
    for name in kept:
        assert getattr(found, name) == getattr(system, name)
    assert labels(found) == labels(system)
    assert type(found.decoder) is type(system.decoder)
    if isinstance(found.decoder, DecoderCommand):
        assert found.decoder.words()[0] == str(folder / "bin" / "moses")
        assert found.decoder.words()[1:] == ["-f", str(folder / "moses.ini"), "{nbest}"]
    elif found.decoder is not None:
        assert found.decoder.program.is_file()
    assert asdict_with_absolute_paths(found.text) == asdict_with_absolute_paths(system.text)
    assert found.read_ini().tuneable_weights().keys() == {
        "WordPenalty0",
        "TM0",
        "Distortion0",
        "LM0",
    }
    # The file that a second writing gives is the same.
    before = (folder / where / "system.toml").read_text()
    write_system(found, folder / where)
    assert (folder / where / "system.toml").read_text() == before


def labels(system: System) -> list[str]:
    """Return the columns of a system as text, with absolute paths."""
    columns = (*system.search, *system.lists, *system.columns)
    return [each.with_paths(os.path.abspath).to_toml() for each in columns]


def asdict_with_absolute_paths(text: TextProcessing) -> dict[str, Any]:
    return {
        name: Path(os.path.abspath(value)) if isinstance(value, Path) else value
        for name, value in vars(text).items()
    }


def test_the_moses_ini_of_a_written_system_has_the_weights_of_the_search(folder: Path) -> None:
    weights = read_system(".").weights
    search = {**weights.search, "TM0": (0.75, 0.125)}
    write_system(replace(read_system("."), weights=WeightPair(search, weights.lists)), Path("new"))
    assert "\nTM0= 0.75 0.125\n" in (folder / "new" / "moses.ini").read_text()
    assert " path=../table " in (folder / "new" / "moses.ini").read_text()
    assert read_system("new").weights.search == search
    assert ready("new") == "yes"


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_path_stays_relative_unless_the_user_wrote_an_absolute_one(
    folder: Path, is_absolute: bool
) -> None:
    if is_absolute:
        Path("system.toml").write_text(SYSTEM.replace('"cslm"', f'"{folder}/cslm"'))
    write_system(read_system("."), Path("rows/new"))
    name = f"{folder}/cslm" if is_absolute else "../../cslm"
    written = Path("rows/new/system.toml").read_text()
    assert f'search = [{{ model = "{name}" }}]\n' in written
    assert '{ model = "../../rnnsearch" },\n' in written
    assert 'moses_ini = "moses.ini"\n' in written


def test_a_folder_of_systems_can_be_moved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "here" / "base").mkdir(parents=True)
    write_files(folder / "here" / "base")
    write_system(read_system("here/base"), Path("here/new"))
    os.rename("here", "there")
    monkeypatch.chdir("there")
    assert ready("new") == "yes"
    assert ready("new/moses.ini") == "yes"
    monkeypatch.chdir("new")
    assert ready() == "yes"


def test_the_file_of_an_earlier_system_is_not_lost_if_a_part_cannot_be_written(
    folder: Path,
) -> None:
    before = (folder / "system.toml").read_text()
    with pytest.raises(PhrasescoreError):
        write_system(replace(read_system("."), moses_ini=Path("none.ini")), folder)
    assert (folder / "system.toml").read_text() == before


# The keys of version 0.3; tests/test_version_0_3.py has files that 0.3 wrote.


def test_the_keys_of_version_0_3_are_read(folder: Path) -> None:
    Path("old.toml").write_text(
        'moses_ini = "moses.ini"\nweights = "weights"\nnbest_size = 9\nconfidence_scale = 0.5\n'
        'search_models = ["cslm"]\nbackoff_lm = "lm.arpa"\nanswer_timeout = 5.0\n'
        "[search]\nstack-size = 30\nbuffer-size = 9\n"
        '[[rescore]]\nmodel = "rnnsearch"\n[[rescore]]\nfeature = "target_unknown_words"\n'
        f'[[rescore]]\nscores_command = "{sys.executable} table"\n'
    )
    system = read_system("old.toml")
    assert system.search == (Network(f"{folder}/cslm", backoff_lm=f"{folder}/lm.arpa"),)
    assert system.lists[:2] == (Network(f"{folder}/rnnsearch"), NamedFeature("unknown_words"))
    assert system.lists[2] == Command(f"{sys.executable} {folder}/table", timeout=5)
    assert system.limits == {"stack": 30}
    assert system.confidence == ConfidenceCurve(0.5)


# Experiments


def write_table(folder: Path, rows: dict[str, float | None]) -> None:
    """Write the record of an experiment with the scores of its rows on dev; None if unfinished."""
    lines = ['metric = "bleu"', "[[text]]", 'name = "dev"', "tuned = true"]
    for name, score in rows.items():
        lines += ["[[row]]", f'name = "{name}"']
        if score is not None:
            lines += [f'system = "{name}/seed2"', f"scores.dev = {{ replicas = [{score}] }}"]
            write_system(read_system("."), folder / name / "seed2")
    (folder / "table.toml").write_text("\n".join(lines))


@pytest.mark.usefixtures("folder")
def test_an_experiment_is_its_best_row_and_a_row_its_best_seed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    write_table(Path("out"), {"Baseline": 20.0, "+CSLM": 22.0, "+RNN": 21.0})
    (Path("out") / "+RNN" / "seed1").mkdir()
    assert read_system("out").path == f"{Path.cwd()}/out/+CSLM/seed2/system.toml"
    assert read_system("out/+RNN").path == f"{Path.cwd()}/out/+RNN/seed2/system.toml"
    assert read_system("out/+RNN/seed2").path == "out/+RNN/seed2/system.toml"
    assert ready("out") == "yes"
    assert caplog.messages == []
    os.rename("out", "moved")
    assert read_system("moved").path == f"{Path.cwd()}/moved/+CSLM/seed2/system.toml"
    with pytest.raises(PhrasescoreError, match="moved/none: cannot open: No such file"):
        read_system("moved/none")


@pytest.mark.usefixtures("folder")
def test_while_an_experiment_runs_its_finished_rows_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    write_table(Path("out"), {"Baseline": 20.0, "+CSLM": 22.0, "+RNN": None})
    assert read_system("out").path.endswith("/out/+CSLM/seed2/system.toml")
    assert caplog.messages == ["out: 2 of 3 rows are finished: the system is +CSLM for now"]
    write_table(Path("out"), {"Baseline": None, "+CSLM": 22.0})
    assert read_system("out").path.endswith("/out/+CSLM/seed2/system.toml")
    write_table(Path("out"), {"Baseline": None})
    problem = "out: no row of this experiment is finished; its command continues it"
    with pytest.raises(PhrasescoreError, match=problem):
        read_system("out")
    Path("out/table.toml").unlink()
    Path("out/steps.json").touch()
    with pytest.raises(PhrasescoreError, match=problem):
        read_system("out")


@pytest.mark.usefixtures("folder")
def test_a_table_of_version_0_3_is_refused_in_one_line() -> None:
    Path("out").mkdir()
    Path("out/table.toml").write_text('notes = []\n[[row]]\nname = "Baseline"\n')
    with pytest.raises(
        PhrasescoreError, match=r"out/table.toml: the table of an experiment of ver"
    ):
        read_system("out")
