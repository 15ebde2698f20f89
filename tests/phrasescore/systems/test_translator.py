"""A system translates a text, a stream, and with Moses or Ray, in the same way."""

import gzip
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from moses_integration.decoder.moses import DecoderCommand, ListRequest
from moses_integration.weight_lines import write_weights
from phrasescore.errors import ArgumentError, ConfigError, DataError, PhrasescoreError
from phrasescore.progress import Progress
from phrasescore.records import WeightPair, Weights
from phrasescore.settings.compute import Compute
from phrasescore.systems import workers
from phrasescore.systems.search import SearchWork, read_configuration
from phrasescore.systems.system import Moses, System, read_system
from phrasescore.systems.translator import Translator, load_system
from phrasescore.workflows.translate import translate
from tests.conftest import REPOSITORY
from tests.log import warnings
from tests.ray_here import kill_worker
from tests.small_system import TEXT, write_characters, write_moses, write_system

HERE, PROCESSES = Compute(workers=1), Compute(engine="processes", workers=2)
RAY = Compute(engine="ray", workers=2)
SENTENCES = TEXT.splitlines()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_system(tmp_path)


Found = list[tuple[str, bytes]]  # the translation and the list of each sentence


def by_text(system: System, lists: ListRequest, compute: Compute = HERE) -> Found:
    """Return what a translator finds that knows the text."""
    translator = Translator(system, compute, tokenized=True)
    lines = Path("source").read_bytes().splitlines()
    sentences = [translator.prepare(number, line) for number, line in enumerate(lines, start=1)]
    with translator.open(sentences):
        found = translator.translate_prepared(sentences, nbest=lists.size, lists=lists)
        return [(each.text, each.nbest) for each in found]


def by_stream(system: System, lists: ListRequest, compute: Compute = HERE) -> Found:
    """Return what a translator finds that reads one sentence after another."""
    translator = Translator(system, compute, tokenized=True)
    lines = enumerate(Path("source").read_bytes().splitlines(), start=1)
    sentences = (translator.prepare(number, line) for number, line in lines)
    with translator:
        found = translator.translate_prepared(sentences, nbest=lists.size, lists=lists)
        return [(each.text, each.nbest) for each in found]


def without_lists(system: System) -> System:
    """Return a system without its features of lists."""
    search = system.weights.search
    return replace(system, lists=(), weights=WeightPair(search, search))


@pytest.mark.parametrize("characters", [False, True], ids=["words", "characters"])
def test_a_text_a_stream_and_moses_give_the_translations_and_lists_of_decode(
    characters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_characters(tmp_path) if characters else write_system(tmp_path, networks=False)
    name = "characters" if characters else "words"
    golden = (REPOSITORY / "tests" / "data" / f"decode.{name}.nbest").read_bytes()
    first = {line.split(b" ||| ")[0]: line for line in reversed(golden.splitlines())}
    texts = [first[number].split(b"|||")[1].strip().decode() for number in sorted(first)]
    lists = ListRequest(9, True, not characters, not characters)
    system = read_system("moses.ini")
    for found in (
        by_text(system, lists),
        by_text(system, lists, PROCESSES),
        by_stream(system, lists),
        by_stream(system, lists, PROCESSES),
    ):
        assert [text for text, _ in found] == texts
        assert b"".join(nbest for _, nbest in found) == golden
    (tmp_path / "lists").write_bytes(golden)
    write_moses(tmp_path)
    by_moses = replace(system, decoder=Moses(tmp_path / "bin"))
    if characters:
        with pytest.raises(ConfigError, match="a system of characters requires the search of this"):
            by_text(by_moses, lists)
        return
    found = by_text(by_moses, lists)
    assert [text for text, _ in found] == texts
    assert b"".join(nbest for _, nbest in found) == golden


def test_features_of_lists_give_the_same_by_text_stream_moses_and_engine(
    folder: Path, engine: Compute
) -> None:
    system, lists = read_system("system.toml"), ListRequest(9, distinct=True)
    found = by_text(system, lists)
    assert by_text(system, lists, engine) == found
    assert by_stream(system, lists) == found
    # Another decoder, which returns the lists of the search.
    searched = by_text(without_lists(system), lists)
    assert [text for text, _ in searched] != [text for text, _ in found]
    (folder / "lists").write_bytes(b"".join(nbest for _, nbest in searched))
    command = DecoderCommand("sh -c 'cat >text; cp lists $0' {nbest}")
    assert by_text(replace(system, moses_ini=None, search=(), decoder=command), lists) == found
    assert (folder / "text").read_text() == TEXT


def test_an_engine_changes_nothing_even_if_a_worker_is_killed(
    engine: Compute, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    beginnings = []

    def kill_first(now: Progress) -> None:
        if not now.done and not now.finished:
            beginnings.append(now)
            kill_worker()

    (folder / "source").write_text("la maison\n\nder die das xyz maison ist bleue xyz\n" * 20)
    lists = ("lists", ListRequest(4))
    here = translate("system.toml", "source", "out", nbest=lists, compute=HERE)
    found = [(folder / name).read_bytes() for name in ("out", "lists")]
    assert warnings(caplog)[0].startswith("140 of 200 source words are not in the table")
    killed = translate(
        *("system.toml", "source", "out"), nbest=lists, compute=engine, progress=kill_first
    )
    assert (killed, len(beginnings)) == (here, 1)
    assert [(folder / name).read_bytes() for name in ("out", "lists")] == found


def test_workers_are_ended_where_ctrl_c_comes_as_they_begin(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    class Pool:
        is_ended = False

        def __enter__(self) -> "Pool":
            return self

        def __exit__(self, *_: object) -> None:
            Pool.is_ended = True

        def submit(self, _: object) -> SimpleNamespace:
            return SimpleNamespace(result=interrupt)

    monkeypatch.setattr(workers, "open_pool", lambda *_, **__: Pool())
    with pytest.raises(KeyboardInterrupt):
        translate("moses.ini", folder / "source", "interrupted", compute=RAY)
    assert Pool.is_ended


def test_workers_on_other_machines_begin_in_the_same_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = read_system("system.toml")
    work = SearchWork(read_configuration(system), system.search, (), {}).in_folders()
    assert work.networks[0].model == str(folder / "cslm")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    search = work.load()
    assert Path.cwd() == folder
    assert len(search.load_networks()) == 1
    with pytest.raises(DataError, match="gone: cannot be entered"):
        replace(work, folder="gone").load()


@pytest.mark.parametrize(
    ("system", "compute", "problem"),
    [
        ("moses.ini", Compute(engine="ray", threads=1), "--threads has no effect with --engine"),
        ("moses.ini", Compute(precision="int8"), "--precision: has no effect here"),
        ("moses.toml", RAY, "--engine ray requires the search of this package"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_settings_that_change_nothing_are_refused(
    system: str, compute: Compute, problem: str
) -> None:
    Path("moses.toml").write_text(
        'moses_ini = "moses.ini"\ndecoder = { command = "cat {nbest}" }\n'
    )
    with pytest.raises(ArgumentError, match=problem):
        load_system(system, compute=compute)
    with pytest.raises(ArgumentError, match="--engine ray requires a file: a stream is"):
        load_system("moses.ini", compute=RAY).open()


@pytest.mark.usefixtures("folder")
def test_rounds_get_distinct_lists_in_the_order_of_the_search_under_any_weights() -> None:
    system = read_system("system.toml")
    translator = Translator(system, HERE, tokenized=True)
    lines = Path("source").read_bytes().splitlines()
    sentences = [translator.prepare(number, line) for number, line in enumerate(lines, start=1)]
    with translator.open(sentences):
        assert translator.list_names == ("RNNsearch0", "UnknownWords0")
        first = [found.raw for found in translator.lists(sentences, system.weights.search)]
        other = {**system.weights.search, "LM0": (2.0,)}
        second = [found.raw for found in translator.lists(sentences, other)]
        again = [found.raw for found in translator.lists(sentences, system.weights.search)]
    assert first == again != second
    searched = by_text(without_lists(system), ListRequest(9, distinct=True))
    for found, (text, nbest) in zip(first, searched, strict=True):
        lines = nbest.splitlines()
        assert [line.partition(b" RNNsearch0=")[0] for line in found.splitlines()] == [
            line.rpartition(b" ||| ")[0] for line in lines
        ]
        assert found.split(b" ||| ")[1].strip().decode() == text


# In Python


@pytest.mark.parametrize("weights", ["file", "values", "pair"])
@pytest.mark.usefixtures("folder")
def test_other_weights_may_be_a_file_or_values(weights: str) -> None:
    by_name: Weights = {"TM0": (0.0, 1.0), "LM0": (0.0,), "WordPenalty0": (-7.0,)}
    write_weights("file", by_name)
    given: Any = {"file": "file", "values": by_name, "pair": WeightPair(by_name, by_name)}[weights]
    with load_system("moses.ini", weights=given, compute=HERE) as system:
        (found,) = system.translate(["la maison"], nbest=9)
    # p = 1 for two words in two phrases, and for two words in one; phrases gain 0.25 each, and a
    # missing weight is that of the moses.ini.
    assert [str(each) for each in found.to_list()][:2] == ["the home", "the house"]
    assert found.to_list()[0].score == pytest.approx(14 + 2 * 0.25)


@pytest.mark.usefixtures("folder")
def test_sentences_are_strings_or_words_and_translations_have_their_parts() -> None:
    expected = by_text(read_system("system.toml"), ListRequest(2, distinct=True))
    words = ["maison", "xyz", "la", "bleue", "maison"]
    sentences: list[Any] = ["\ufeffla maison\n", [], words, "la la maison bleue"]
    with load_system(read_system("system.toml"), compute=HERE) as system:
        found = list(system.translate(sentences, nbest=np.argmax([0, 0, 1])))  # type: ignore[arg-type]
        (explained,) = system.translate([words], nbest=2, explain=True)
        assert list(system.translate([])) == []
        (sure,) = system.translate(["la maison"], confidence=True)
    assert [(each.text, each.nbest) for each in found] == expected
    assert (found[0].source, found[0].confidence) == (("la", "maison"), None)
    assert explained.hypotheses[0].words == found[2].text == str(found[2])
    assert [str(each) for each in found[2].to_list()] == [
        each.words for each in explained.hypotheses
    ]
    assert sure.words == tuple(expected[0][0].split())
    assert sure.confidence is not None
    assert sure.to_list() == []


@pytest.mark.parametrize(
    ("sentences", "options", "error", "message"),
    [
        ("la", {}, ArgumentError, "sentences: expected a sequence, got the string 'la'"),
        (["la\nla"], {}, TypeError, "expected single words, or one sentence"),
        (["la", 5], {}, TypeError, "expected words, or a sentence as a string"),
        (["la", "la|N"], {}, DataError, "the text:2: expected words without factors"),
        (["la", "\udce9t\udce9"], {}, DataError, "the text:2: expected UTF-8, found byte 0xe9$"),
        (["la"], {"nbest": -1}, ArgumentError, "--nbest: expected at least 0, got -1"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_arguments_are_named(
    sentences: Any, options: Any, error: type[Exception], message: str
) -> None:
    with (
        load_system("moses.ini", compute=HERE) as system,
        pytest.raises(error, match=f"^{message}"),
    ):
        list(system.translate(sentences, **options))


@pytest.mark.usefixtures("folder")
def test_a_translator_is_used_in_a_with_block() -> None:
    system = load_system("system.toml", compute=HERE)
    assert repr(system) == "<Translator of system.toml>"
    with pytest.raises(ArgumentError, match="use it in a with block"):
        list(system.translate(["la"]))


@pytest.mark.parametrize(
    ("weights", "error", "problem"),
    [
        ({"LM0": (1.0, 2.0)}, ConfigError, "moses.ini: weights: expected 1 weights for LM0, found"),
        ({"LM0": None}, ArgumentError, "weights: LM0: expected a number, or a sequence"),
        (
            dict.fromkeys(("LM0", "WordPenalty0", "Distortion0", "PhrasePenalty0"), (0.0,))
            | {"TM0": (0.0, 0.0)},
            *(PhrasescoreError, "moses.ini: expected weights that are not all zero"),
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_weights_that_do_not_fit_are_refused(
    weights: Any, error: type[Exception], problem: str
) -> None:
    with (
        pytest.raises(error, match=problem),
        load_system("moses.ini", weights=weights, compute=HERE) as system,
    ):
        list(system.translate(["la"]))


def test_small_weights_translate_as_large_ones_do(folder: Path) -> None:
    # A common factor changes no order; thresholds aside, which weights of 1e-20 never reach.
    usual = read_system("moses.ini").weights.search | {"PhrasePenalty0": (0.25,)}
    small = {name: tuple(1e-20 * value for value in own) for name, own in usual.items()}
    with load_system("moses.ini", weights=small, compute=HERE) as system:
        found = [each.text for each in system.translate(SENTENCES)]
    assert found == [text for text, _ in by_text(read_system(folder / "moses.ini"), ListRequest(1))]


def test_a_compressed_table_is_not_replaced(folder: Path) -> None:
    table = gzip.compress((folder / "table").read_bytes())
    (folder / "table").unlink()
    (folder / "table.gz").write_bytes(table)
    with pytest.raises(PhrasescoreError, match=r"table\.gz: would overwrite"):
        translate("moses.ini", folder / "source", "table.gz", tokenized=True)
    assert (folder / "table.gz").read_bytes() == table


def test_a_program_that_leaves_out_a_sentence_is_warned_of(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "program.py").write_text(
        "import sys\nopen(sys.argv[1], 'w').write('0 ||| the house ||| LM0= -1 ||| -1\\n')\n"
    )
    command = f"{sys.executable} {folder / 'program.py'} {{nbest}}"
    (folder / "source").write_text("la maison\nmaison\n")
    system = System.of_command(command, "moses.ini")
    done = translate(system, folder / "source", "out", tokenized=True)
    assert (Path("out").read_text(), done.untranslated) == ("the house\n\n", 1)
    assert "1 sentences have empty translations: the decoder wrote no list" in caplog.text
