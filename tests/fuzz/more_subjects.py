"""More that is damaged: whole systems, other toolkits' models, programs, requests, builds."""

from collections.abc import Iterable

from tests.fuzz.checks import (
    a_line_each,
    all_of,
    best_of_lists,
    finite,
    scored_lists,
    sorted_lists,
)
from tests.fuzz.more_material import AVERAGED, STOPPED_BUILDS
from tests.fuzz.subject import Subject


def more_subjects() -> Iterable[Subject]:
    yield from _systems()
    yield from _lists()
    yield from _builds()
    yield from _plans()


def _systems() -> Iterable[Subject]:
    outputs = ("out", "out.nbest", "out.json")
    wanted = "--workers 1 -o out --nbest out.nbest 3 --explain out.json --confidence"
    inputs: tuple[str, ...] = ("system.toml", "system.weights", "two.ini", "lm.arpa", "table")
    each = all_of(a_line_each(), a_line_each(out="out.json"))
    yield Subject("translate", f"translate system.toml source {wanted}", inputs, each, outputs)
    inputs = ("source", "attention", "cslm", "f2e", "general.arpa", "reordering", "two.ini")
    command = f"translate system.toml source {wanted} --tokenized"
    yield Subject("translate files", command, inputs, each, outputs)
    each = all_of(a_line_each("raw"), a_line_each("raw", "out.json"))
    inputs = ("raw", "text.toml", "truecaser")
    yield Subject("translate text", f"translate text.toml raw {wanted}", inputs, each, outputs)
    several = "decode source --config two.ini --workers 1 --engine here --stack 5 -o out"
    yield Subject("decode two", several, ("two.ini", "lm.arpa", "general.arpa"), a_line_each())
    inputs = ("system.toml", "system.weights", "two.ini", "cslm", "attention")
    yield Subject("serve", "serve system.toml --port 0 --workers 1", inputs, None, (), share=0.1)
    json_files = "one.json", "many.json"
    for system in ("system", "text"):
        name = f"requests {system}"
        command = f"ask {system}.toml /translate {' '.join(json_files)}"
        yield Subject(name, command, json_files, None, ())
        command = f"ask {system}.toml /RPC2 call.xml"
        yield Subject(f"{name} XML", command, ("call.xml",), None, ())


def _lists() -> Iterable[Subject]:
    inputs: tuple[str, ...]
    parts: tuple[str, ...]
    lists = "rescore nbest --source source -o out --threads 1 --engine here"
    check = scored_lists("Transformer0")
    yield Subject("rescore transformer", f"{lists} --model transformer", ("transformer",), check)
    generate = (
        "generate transformer source --beam 2 --max-length 9 -o out --threads 1 --engine here"
    )
    yield Subject("generate transformer", generate, ("source", "transformer"), a_line_each())
    # Not model.bin: CTranslate2 reads it (SECURITY.md).
    parts = "config.json", "vocabulary.json", "tokenizer.json"
    prompted = (
        "rescore short.nbest --source short.source -o out --threads 1 --engine here "
        '--column ctranslate2="gpt",prompt="{source}="'
    )
    inputs = tuple(f"gpt/{part}" for part in parts)
    check = scored_lists("CT20", nbest="short.nbest")
    yield Subject("rescore generator", prompted, (*inputs, "short.nbest"), check)
    parts = "config.json", "shared_vocabulary.json", "source.spm", "target.spm"
    inputs = tuple(f"marian/{part}" for part in parts)
    foreign = f'{lists} --column ctranslate2="marian",target_language="fr"'
    yield Subject("rescore CTranslate2", foreign, inputs, scored_lists("CT20"))
    program = f"{lists} --command ./program.sh"
    yield Subject("rescore program", program, ("answers",), scored_lists("Program0"), share=0.5)
    program = (
        "evaluate references --references references --source source --format json -o out "
        "--command ./program.sh"
    )
    yield Subject("evaluate program", program, ("answers", "source"), finite(), share=0.5)
    for kind in ("joshua", "old", "sparse"):
        nbest = f"{kind}.nbest"
        rescored = (
            f"rescore {nbest} --source source -o out --model lstm --feature length_ratio "
            "--threads 1 --engine here"
        )
        check = scored_lists("LSTM0", "LengthRatio0", nbest=nbest)
        yield Subject(f"rescore {kind}", rescored, (nbest,), check)
    for kind in ("joshua", "sparse"):
        nbest, weights = f"{kind}.nbest", f"{kind}.weights"
        best = f"rerank {nbest} --weights {weights} -o out"
        yield Subject(f"rerank {kind}", best, (nbest, weights), best_of_lists(nbest))
        tune = (
            f"tune {nbest} --references references --weights {weights} --method mira "
            "--threads 1 -o out"
        )
        yield Subject(f"tune {kind}", tune, (nbest, weights), finite())
    sums = "rerank old.nbest --average lm --nbest -o out"
    yield Subject("rerank old", sums, ("old.nbest",), sorted_lists("old.nbest"))
    inputs = ("sparse.ini", "sparse.part", "sparse.nbest")
    outputs = ("out", "out.sparse-weights")
    command = (
        "tune sparse.nbest --references references --moses-ini sparse.ini --moses-ini-out out "
        "--method xbleu --threads 1"
    )
    yield Subject("tune weight-file", command, inputs, finite("sparse.ini"), outputs)


def _builds() -> Iterable[Subject]:
    for name, _, given in STOPPED_BUILDS:
        work = f"{name}.work"
        command = f"build {given} --workers 1 -o {name} --resume"
        paths = (f"{name}/",), (f"{work}/",)
        yield Subject(f"build {name}", command, (work,), None, *paths, share=0.3)
    raw = "raw.source", "raw.target"
    text = (
        "build raw.source raw.target --tokenize en fr --truecase --aligner fast-align "
        "--lm-order 2 --workers 1 -o out"
    )
    yield Subject("build text", text, raw, None, ("out/",), share=0.1)
    spelling = (
        "build raw.source raw.target --characters --aligner hmm --max-phrase-length 3 "
        "--lm-order 2 --workers 1 -o out"
    )
    yield Subject("build characters", spelling, raw, None, ("out/",), share=0.1)
    averaged = f"train lstm source references {AVERAGED} --updates 3 --threads 1 --resume"
    state = ("averaged.work",)
    yield Subject("train averaged", averaged, state, None, ("averaged/",), ("averaged.work/",))


def _plans() -> Iterable[Subject]:
    inputs: tuple[str, ...]
    planned = (
        "init moses.ini --train source references --alignments alignments "
        "--dev source references --test source references --minutes 5 -o out"
    )
    inputs = ("moses.ini", "source", "references", "alignments", "table")
    yield Subject("init", planned, inputs)
    inputs = ("outside.toml", "truecaser", "gpt/config.json")
    command = "experiment outside.toml -o out --dry-run"
    yield Subject("experiment outside", command, inputs, None, ("out/lock",))
