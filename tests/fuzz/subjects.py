"""What is damaged, in which command, and what has to come out if the command takes the file."""

import gzip
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.table_lines import remove_scores

Check = Callable[[], str | None]


@dataclass(frozen=True)
class Subject:
    """A command, and the files of its that are damaged, one at a time.

    :ivar files: paths of files, and of folders for each file in them.
    :ivar outputs: files that it may write if it takes the damaged file; ``.work`` for a folder.
    :ivar check: called where it took the file; returns what is wrong with the output.
    :ivar changes: files that it may change whatever becomes of it.
    """

    name: str
    command: str
    files: tuple[str, ...]
    check: Check | None = None
    outputs: tuple[str, ...] = ("out",)
    changes: tuple[str, ...] = ()


def lines_of(path: str) -> list[bytes]:
    """Return the lines of a file as the tool reads it, the last one with or without a newline."""
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return data.removesuffix(b"\n").split(b"\n") if data else []


def _scored_pairs(added: int, table: str = "table") -> Check:
    """All lines of the table, in order, with some finite scores more."""

    def check() -> str | None:
        before, after = lines_of(table), lines_of("out")
        if len(before) != len(after):
            return f"{len(before)} lines became {len(after)}"
        for number, (old, new) in enumerate(zip(before, after, strict=True), start=1):
            if remove_scores(new, added) != old:
                return f"line {number} was changed: {old!r} {new!r}"
            values = new.split(b"|||")[2].split()[-added:]
            if not all(math.isfinite(float(value)) and float(value) > 0 for value in values):
                return f"line {number} has the scores {values}"
        return None

    return check


def _scored_lists(*features: str, nbest: str = "nbest") -> Check:
    """All lines of the lists, in order, with some finite features more."""

    def check() -> str | None:
        before, after = lines_of(nbest), lines_of("out")
        if len(before) != len(after):
            return f"{len(before)} lines became {len(after)}"
        names = "".join(rf" {name}= (-?[\d.e+-]+)" for name in features)
        for number, (old, new) in enumerate(zip(before, after, strict=True), start=1):
            found = re.search(rf"{names}(?= ?\|\|\|)".encode(), new)
            if found is None or not all(math.isfinite(float(each)) for each in found.groups()):
                return f"line {number} has no {features}: {new!r}"
            rest = new[: found.start()] + new[found.end() :]
            if [part.strip(b" \r") for part in rest.split(b"|||")] != [
                part.strip(b" \r") for part in old.split(b"|||")
            ]:
                return f"line {number} was changed: {old!r} {new!r}"
        return None

    return check


def _a_line_each(text: str = "source", out: str = "out") -> Check:
    """A line of output for each line of a text."""

    def check() -> str | None:
        before, after = len(lines_of(text)), len(lines_of(out))
        return None if before == after else f"{before} lines became {after}"

    return check


def _finite() -> str | None:
    """No number of the output is none."""
    found = re.search(rb"(?<![\w|])-?(nan|inf)(?![\w|])", Path("out").read_bytes(), re.IGNORECASE)
    return f"the output says {found[0]!r}" if found else None


def _some_lines() -> str | None:
    """Only lines of the text, in its order."""
    rest = iter(lines_of("source"))
    return None if all(line in rest for line in lines_of("out")) else "other lines than the text's"


_LISTS = "rescore nbest --source source -o out --threads 1 --engine here"
_MODEL_KINDS = ("attention", "grconv", "lstm", "cslm")
_NETWORK_NAMES = {"attention": "Attention0", "grconv": "GrConv0", "lstm": "LSTM0", "cslm": "CSLM0"}


def _subjects() -> Iterable[Subject]:
    score = "annotate table --model rnn -o out --threads 1 --engine here"
    yield Subject("annotate", score, ("table",), _scored_pairs(1))
    packed = "annotate table.gz --model rnn -o out --threads 1 --engine here"
    yield Subject("annotate gz", packed, ("table.gz",), _scored_pairs(1, "table.gz"))
    yield Subject("annotate model", score, ("rnn",), _scored_pairs(1))
    columns = "annotate table --scores table.numbers --lexicon lexicon -o out"
    yield Subject("annotate columns", columns, ("table.numbers", "lexicon"))
    ini = f"{score} --moses-ini moses.ini --moses-ini-out out.ini"
    yield Subject("annotate moses.ini", ini, ("moses.ini",), _scored_pairs(1), ("out", "out.ini"))
    kept = "annotate table --model rnn --for source -o out --threads 1 --engine here"
    yield Subject("annotate --for", kept, ("table", "source"))
    work = ("scored.part", "scored.part.json")
    resumed = "annotate table --model rnn -o scored --resume --threads 1 --engine here"
    yield Subject("annotate work", resumed, work, None, ("scored",), work)
    parts = ("part1", "part2", "part1.json", "part2.json")
    yield Subject("join", "join part1 part2 -o out", parts)
    parts = ("lists.part1", "lists.part2", "lists.part1.json", "lists.part2.json")
    yield Subject("join lists", "join lists.part1 lists.part2 -o out", parts)
    for kind in _MODEL_KINDS:
        command = f"{_LISTS} --model {kind}"
        check = _scored_lists(_NETWORK_NAMES[kind])
        yield Subject(f"rescore {kind}", command, (kind,), check)
    given = f"{_LISTS} --model lstm --feature length_ratio --scores numbers=Own0"
    yield Subject("rescore", given, ("nbest", "source", "numbers"))
    alone = f"{_LISTS} --model lstm"
    yield Subject("rescore nbest", alone, ("nbest",), _scored_lists("LSTM0"))
    aligned = "rescore aligned.nbest --source source --model joint -o out --threads 1 --engine here"
    check = _scored_lists("Joint0", nbest="aligned.nbest")
    yield Subject("rescore joint", aligned, ("aligned.nbest", "joint"), check)
    cached = f"{_LISTS} --model lstm --cache cache"
    yield Subject("rescore cache", cached, ("cache",), _scored_lists("LSTM0"), changes=("cache",))
    work = ("begun.part", "begun.part.json")
    resumed = "rescore nbest --source source --model lstm -o begun --resume --threads 1"
    yield Subject("rescore work", resumed, work, None, ("begun",), work)
    ngrams = f"{_LISTS} --lm lm.arpa --lexicon lexicon"
    yield Subject("rescore n-grams", ngrams, ("lm.arpa", "lexicon"), _finite)
    backoff = f"{_LISTS} --model cslm --backoff-lm lm.arpa"
    yield Subject("rescore back-off", backoff, ("lm.arpa",), _scored_lists("CSLM0"))
    plain = "score source references --model attention -o out --threads 1 --engine here"
    yield Subject("score", plain, ("source", "references"), _a_line_each())
    yield Subject("rerank", "rerank nbest --weights weights -o out", ("nbest", "weights"))
    yield Subject("rerank gz", "rerank nbest.gz --weights weights --mbr -o out", ("nbest.gz",))
    sums = "rerank nbest --average LM0 --nbest -o out"
    yield Subject("rerank --average", sums, ("nbest",))
    tune = "tune nbest --references references --weights weights --starts 1 --threads 1 -o out"
    yield Subject("tune", tune, ("nbest", "references", "weights"), _finite)
    ini = (
        "tune nbest --references references --moses-ini moses.ini --moses-ini-out out --method mira"
    )
    yield Subject("tune moses.ini", ini, ("moses.ini", "nbest"), _finite)
    files = "tune --features features.dat --scores scores.dat --ifile init.opt --starts 1 -o out"
    yield Subject("tune files", files, ("features.dat", "scores.dat", "init.opt"), _finite)
    loop = (
        "tune --decoder ./decoder.sh --config moses.ini --source source --references references "
        "--iterations 1 --method xbleu --threads 1 -o out --working-dir"
    )
    yield Subject(
        "tune decoder",
        f"{loop} new.loop",
        ("decoded.nbest",),
        _finite,
        ("out", "new.loop/"),
        ("new.loop/",),
    )
    yield Subject("tune work", f"{loop} loop --resume", ("loop",), _finite, ("out",), ("loop/",))
    search = "decode source --config moses.ini --workers 1 --engine here --stack 5 -o out"
    inputs = ("source", "moses.ini", "table", "reordering", "lm.arpa")
    yield Subject("decode", search, inputs, _a_line_each())
    lists = f"{search} --weights weights --nbest out.nbest 5 --alignment --segmentation"
    yield Subject("decode lists", lists, ("weights", "table"), _a_line_each(), ("out", "out.nbest"))
    networks = f"{search} --feature cslm --model cslm --feature joint --model joint --threads 1"
    yield Subject("decode networks", networks, ("cslm", "joint", "table"), _a_line_each())
    measured = "evaluate references --references source --nbest nbest --format json -o out"
    yield Subject("evaluate", measured, ("references", "source", "nbest"), _finite)
    yield Subject("combine", "combine nbest own.nbest -o out", ("nbest", "own.nbest"))
    generate = "generate lstm source --beam 2 --max-length 9 -o out --threads 1 --engine here"
    yield Subject("generate", generate, ("source", "lstm"), _a_line_each())
    augment = "generate rnn --augment table --targets 2 -o out --threads 1 --engine here"
    yield Subject("generate --augment", augment, ("table", "rnn"))
    segment = (
        "segment source --model rnn --reverse-model reverse -o out --segments out.json --threads 1"
    )
    yield Subject("segment", segment, ("source", "rnn"), None, ("out", "out.json"))
    select = (
        "select source --in-domain lm.arpa --general general.arpa --lines 2 -o out --processes 1"
    )
    yield Subject("select", select, ("source", "lm.arpa"), _some_lines)
    ppl = "perplexity references --model cslm --lm lm.arpa --mix-on mixed --threads 1"
    yield Subject("perplexity", ppl, ("references", "lm.arpa", "cslm", "mixed"), None, ())
    yield Subject("show", "show table --model rnn", ("table", "rnn"), None, ())
    yield Subject("show model", "show joint --format json", ("joint",), None, ())
    report = (
        "report nbest --source source --references references --tuning-report report.json "
        "--experiment made.experiment --only translations --only tuning --only experiment -o out"
    )
    shown = ("nbest", "references", "report.json", "made.experiment")
    yield Subject("report", report, shown, None, ("out/",))
    export = "export cslm -o out --moses-ini moses.ini --moses-ini-out out.ini"
    yield Subject("export", export, ("cslm", "moses.ini"), None, ("out", "out.ini"))
    experiment = "experiment experiment.toml -o out --dry-run"
    yield Subject(
        "experiment", experiment, ("experiment.toml", "moses.ini", "source"), None, ("out/lock",)
    )
    text = "train encoder-decoder table -o out --updates 1 --threads 1 --config settings.toml"
    yield Subject("train settings", text, ("settings.toml",), None, ("out/",))
    small = "--set model.hidden_size=4 --set model.embedding_size=3 --updates 1 --threads 1 -o out"
    table = f"train encoder-decoder table {small}"
    yield Subject("train table", table, ("table",), None, ("out/",))
    vocabulary = f"train lstm source references {small} --source-vocabulary rnn/source.vocab"
    yield Subject(
        "train text", vocabulary, ("source", "references", "rnn/source.vocab"), None, ("out/",)
    )
    joint = "train joint source references --alignments alignments --updates 1 --threads 1 -o out"
    yield Subject("train joint", joint, ("alignments", "source"), None, ("out/",))
    resumed = "train encoder-decoder made.table --resume -o made --threads 1 --device cpu"
    yield Subject("train work", resumed, ("made.work",), None, ("made/",), ("made.work/",))
    lists = (
        "train joint --objective xbleu --from joint --lists aligned.nbest --source source "
        "--references references --alignments alignments --weights weights --updates 1 "
        "--threads 1 -o out --set training.validation_share=0.25 --feature LM0"
    )
    yield Subject(
        "train lists",
        lists,
        ("aligned.nbest", "source", "references", "alignments", "weights", "joint"),
        None,
        ("out/",),
    )


SUBJECTS = {subject.name: subject for subject in _subjects()}
