"""Systems of characters take and give words: ``decode`` and ``tune``, with both decoders."""

import sys
from pathlib import Path

import pytest
from tests.phrasescore.cli.tune.test_embedded import tune

from moses_integration.moses_ini import load_weights
from phrasescore.io.characters import split_characters
from tests.command_line import check_refusal, succeeded
from tests.phrasescore.cli.test_decode import INI, MOSES, decode, drive

TABLE = """\
&apos; ||| &apos; ||| 1 1 ||| 0-0
a ||| a ||| 0.5 1 ||| 0-0
a ||| e ||| 0.25 1 ||| 0-0
l ||| l ||| 0.5 1 ||| 0-0
l a ||| l o ||| 0.25 1 ||| 0-0 1-1
m ||| m ||| 0.5 1 ||| 0-0
m \u2581 ||| \u2581 ||| 0.25 1 ||| 1-0
\u2581 ||| \u2581 ||| 0.5 1 ||| 0-0
\u2581 ||| \u2581 \u2581 ||| 0.5 1 ||| 0-0 0-1
"""
LM = "\\data\\\nngram 1=9\nngram 2=1\n\n\\1-grams:\n-3\t<unk>\n-1\t<s>\n-1\t</s>\n-1\ta\n-1.25\te\n"
LM += "-1\tl\n-1\tm\n-1.5\to\n-0.5\t\u2581\n\n\\2-grams:\n-0.5\tl a\n\n\\end\\\n"
SETTING = "# phrasescore: characters = true\n"
SOURCE = "la ma&apos;l\n\nalx\nlam lam al\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    texts = {"table": TABLE, "lm.arpa": LM, "moses.ini": SETTING + INI, "source": SOURCE}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    lines = (" ".join(split_characters(line.split())) for line in SOURCE.splitlines())
    (tmp_path / "characters").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "plain.ini").write_text(INI)
    return tmp_path


def joined(text: str) -> str:
    """Return the words of characters that are separated by blanks, worked out otherwise."""
    words = text.replace(" ", "").replace("\u2581", " ").split(" ")
    return " ".join(filter(None, words))


def lists(path: Path) -> list[list[str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [[field.strip() for field in line.split("|||")] for line in lines]


@pytest.mark.parametrize("distinct", [(), ("--distinct",)])
def test_words_are_translated_as_their_characters(folder: Path, distinct: tuple[str, ...]) -> None:
    options = ("--nbest", "nbest", "--nbest-size", "60", *distinct, "-o", "out")
    succeeded(decode(*options, processes=2))
    plain = (
        "--nbest",
        "plain.nbest",
        "--nbest-size",
        "60",
        *distinct,
        "-o",
        "plain.out",
        "--config",
        "plain.ini",
    )
    succeeded(decode(*plain, source="characters"))
    expected = [joined(line) for line in (folder / "plain.out").read_text("utf-8").split("\n")]
    assert (folder / "out").read_text("utf-8").split("\n") == expected
    hypotheses = [[number, joined(text), *rest] for number, text, *rest in
                  lists(folder / "plain.nbest")]  # fmt: skip
    if distinct:
        first: dict[tuple[str, str], list[str]] = {}
        for fields in hypotheses:
            first.setdefault((fields[0], fields[1]), fields)
        assert len(first) < len(hypotheses)  # two boundaries are one
        hypotheses = list(first.values())
    assert lists(folder / "nbest") == hypotheses
    assert any("lo ma&apos;l" in fields for fields in hypotheses)


@pytest.mark.parametrize("option", ["--alignment", "--segmentation"])
@pytest.mark.usefixtures("folder")
def test_positions_of_characters_are_refused(option: str) -> None:
    problem = "--alignment and --segmentation require a system of words, and moses.ini translates"
    check_refusal(decode("--nbest", "nbest", "--nbest-size", "9", option, "-o", "out"), problem, 2)


def test_a_word_with_the_boundary_is_refused(folder: Path) -> None:
    (folder / "source").write_text("la\nla\u2581l\n", encoding="utf-8")
    check_refusal(decode(), "source:2: expected words without U+2581")


def test_the_limit_counts_characters(folder: Path) -> None:
    (folder / "source").write_text("la\n" + "a" * 3999 + "\n")
    problem = "source:2: expected a sentence with at most 4,000 characters, found 4,001"
    check_refusal(decode(), problem)


@pytest.fixture
def moses(folder: Path) -> Path:
    binary = folder / "bin" / "moses"
    binary.parent.mkdir()
    # It writes each hypothesis twice, the second time with a boundary more.
    code = MOSES.replace(
        "        for number, line in enumerate(lines):\n",
        "        ends = ('', ' \u2581')\n"
        "        both = [(n, line + end) for n, line in enumerate(lines) for end in ends]\n"
        "        for number, line in both:\n",
    )
    binary.write_text(code.format(python=sys.executable), encoding="utf-8")
    binary.chmod(0o755)
    return folder


def test_moses_gets_characters_and_gives_words(moses: Path) -> None:
    succeeded(drive("--nbest", "nbest", "--nbest-size", "5", "--distinct", "-o", "out"))
    expected = ["LA MA&APOS;L", "", "ALX", "LAM LAM AL"]
    assert (moses / "out").read_text().splitlines() == expected
    assert [fields[:2] for fields in lists(moses / "nbest")] == [
        [str(number), text] for number, text in enumerate(expected)
    ]


def test_tuning_knows_words(folder: Path) -> None:
    (folder / "source").write_text("la\nlam al\nmal\nalla mala\n" * 5)
    (folder / "reference").write_text("lo\nlom el\nmel\nello melo\n" * 5)
    succeeded(tune("--iterations", "2", "--metric", "chrf", "--translations", "dev.out"))
    found = lists(folder / "work" / "run1.nbest")
    assert all(" " not in text for number, text, *_ in found if int(number) % 4 in (0, 2))
    assert {text.count(" ") for number, text, *_ in found if int(number) % 4 in (1, 3)} >= {1}
    assert (folder / "work" / "moses.ini").read_text().startswith(SETTING)
    assert load_weights(str(folder / "out")).search
    succeeded(decode("--config", "work/moses.ini", "-o", "again"))
    assert (folder / "again").read_bytes() == (folder / "dev.out").read_bytes()


def test_tuning_with_moses_knows_words(moses: Path) -> None:
    (moses / "reference").write_text("LA LA\n\nALX\nLAM LAM AL\n")
    tune("--iterations", "1", decoder="bin/moses -threads 1")
    (path,) = (moses / "work").glob("run1.nbest*")
    found = lists(path)
    assert [fields[1] for fields in found] == ["LA MA&APOS;L", "", "ALX", "LAM LAM AL"]
