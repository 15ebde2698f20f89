"""What is damaged, in which command, and what has to come out if the command takes the file."""

from collections.abc import Iterable

from tests.fuzz.checks import (
    Check,
    a_line_each,
    all_hypotheses,
    best_of_lists,
    finite,
    in_order,
    scored_lists,
    scored_pairs,
    sorted_lists,
)
from tests.fuzz.more_subjects import more_subjects
from tests.fuzz.subject import Subject

_LISTS = "rescore nbest --source source -o out --threads 1 --engine here"
# Networks by their folders; subwords is an lstm.
_MODEL_KINDS = ("attention", "grconv", "lstm", "cslm", "subwords")
_NETWORK_NAMES = {"attention": "Attention0", "grconv": "GrConv0", "lstm": "LSTM0", "cslm": "CSLM0"}
_NETWORK_NAMES["subwords"] = "LSTM0"


def _subjects() -> Iterable[Subject]:
    inputs: tuple[str, ...]
    check: Check
    score = "annotate table --model rnn -o out --threads 1 --engine here"
    yield Subject("annotate", score, ("table",), scored_pairs(1))
    packed = "annotate table.gz --model rnn -o out --threads 1 --engine here"
    yield Subject("annotate gz", packed, ("table.gz",), scored_pairs(1, "table.gz"))
    yield Subject("annotate model", score, ("rnn",), scored_pairs(1))
    columns = "annotate table --scores table.numbers --lexicon f2e --reverse-lexicon e2f -o out"
    yield Subject("annotate columns", columns, ("table.numbers", "f2e", "e2f"), scored_pairs(3))
    ini = f"{score} --moses-ini moses.ini --moses-ini-out out.ini"
    yield Subject("annotate moses.ini", ini, ("moses.ini",), scored_pairs(1), ("out", "out.ini"))
    kept = "annotate table --model rnn --for source -o out --threads 1 --engine here"
    yield Subject("annotate --for", kept, ("table", "source"), in_order("out", "table", added=1))
    work = ("scored.part", "scored.part.json")
    resumed = "annotate table --model rnn -o scored --resume --threads 1 --engine here"
    yield Subject("annotate work", resumed, work, scored_pairs(1, out="scored"), ("scored",), work)
    for kind in _MODEL_KINDS:
        command = f"{_LISTS} --model {kind}"
        check = scored_lists(_NETWORK_NAMES[kind])
        yield Subject(f"rescore {kind}", command, (kind,), check)
    names = ("LSTM0", "LengthRatio0", "Own0")
    given = f"{_LISTS} --model lstm --feature length_ratio --scores numbers=Own0"
    yield Subject("rescore", given, ("nbest", "source", "numbers"), scored_lists(*names))
    alone = f"{_LISTS} --model lstm"
    yield Subject("rescore nbest", alone, ("nbest",), scored_lists("LSTM0"))
    aligned = "rescore aligned.nbest --source source --model joint -o out --threads 1 --engine here"
    check = scored_lists("Joint0", nbest="aligned.nbest")
    yield Subject("rescore joint", aligned, ("aligned.nbest", "joint"), check)
    cached = f"{_LISTS} --model lstm --cache cache"
    yield Subject("rescore cache", cached, ("cache",), scored_lists("LSTM0"), changes=("cache",))
    work = ("begun.part", "begun.part.json")
    resumed = "rescore nbest --source source --model lstm -o begun --resume --threads 1"
    check = scored_lists("LSTM0", out="begun")
    yield Subject("rescore work", resumed, work, check, ("begun",), work)
    ngrams = f"{_LISTS} --lm lm.arpa.gz --lexicon f2e --reverse-lexicon e2f"
    check = scored_lists("KenLM0", "Lexicon0", "ReverseLexicon0")
    yield Subject("rescore n-grams", ngrams, ("lm.arpa.gz", "f2e", "e2f"), check)
    backoff = f'{_LISTS} --column model="cslm",backoff_lm="lm.arpa"'
    yield Subject("rescore back-off", backoff, ("lm.arpa",), scored_lists("CSLM0"))
    plain = "score source references --model lstm --lm lm.arpa --cache cache -o out --threads 1"
    inputs = ("source", "references", "lm.arpa", "cache")
    yield Subject("score", plain, inputs, a_line_each(), changes=("cache",))
    best = "rerank nbest --weights weights -o out"
    yield Subject("rerank", best, ("nbest", "weights"), best_of_lists())
    likeliest = "rerank nbest.gz --weights weights --mbr -o out"
    yield Subject("rerank gz", likeliest, ("nbest.gz",), best_of_lists("nbest.gz"))
    sums = "rerank nbest --average LM0 --nbest -o out"
    yield Subject("rerank --average", sums, ("nbest",), sorted_lists())
    tune = "tune nbest --references references --weights weights --starts 1 --threads 1 -o out"
    yield Subject("tune", tune, ("nbest", "references", "weights"), finite())
    ini = (
        "tune nbest --references references --moses-ini moses.ini --moses-ini-out out --method mira"
    )
    yield Subject("tune moses.ini", ini, ("moses.ini", "nbest"), finite("moses.ini"))
    files = "tune --features features.dat --scores scores.dat --ifile init.opt --starts 1 -o out"
    yield Subject("tune files", files, ("features.dat", "scores.dat", "init.opt"), finite())
    loop = (
        "tune --decoder ./decoder.sh --config moses.ini --source source --references references "
        "--iterations 1 --method xbleu --threads 1 -o out --working-dir"
    )
    yield Subject(
        "tune decoder",
        f"{loop} new.loop",
        ("decoded.nbest",),
        finite(),
        ("out", "new.loop/"),
        ("new.loop/",),
    )
    yield Subject("tune work", f"{loop} loop --resume", ("loop",), finite(), ("out",), ("loop/",))
    rescored = (
        f"{loop} new.loop --rescore cslm --rescore-lm general.arpa --rescore-lexicon f2e "
        "--rescore-reverse-lexicon e2f --rescore-feature length_ratio"
    )
    inputs = ("cslm", "general.arpa", "f2e", "e2f", "decoded.nbest")
    yield Subject("tune rescore", rescored, inputs, finite(), ("out", "new.loop/"), ("new.loop/",))
    search = "decode source --config moses.ini --workers 1 --engine here --stack 5 -o out"
    inputs = ("source", "moses.ini", "table", "reordering", "lm.arpa")
    yield Subject("decode", search, inputs, a_line_each())
    lists = f"{search} --weights weights --nbest out.nbest 5 --alignment --segmentation"
    yield Subject("decode lists", lists, ("weights", "table"), a_line_each(), ("out", "out.nbest"))
    networks = (
        f"{search} --feature cslm --model cslm --feature joint --model joint --threads 1 "
        "--backoff-lm general.arpa"
    )
    inputs = ("cslm", "joint", "table", "general.arpa")
    yield Subject("decode networks", networks, inputs, a_line_each())
    measured = "evaluate references --references source --nbest nbest --format json -o out"
    yield Subject("evaluate", measured, ("references", "source", "nbest"), finite())
    groups = "evaluate references --references source --source source --by-unknown rnn/source.vocab"
    inputs = ("rnn/source.vocab", "references", "source")
    yield Subject("evaluate groups", groups, inputs, None, ())
    combine = "combine nbest own.nbest -o out"
    yield Subject("combine", combine, ("nbest", "own.nbest"), all_hypotheses)
    generate = "generate lstm source --beam 2 --max-length 9 -o out --threads 1 --engine here"
    yield Subject("generate", generate, ("source", "lstm"), a_line_each())
    segment = (
        "segment source --model rnn --reverse-model reverse -o out --segments out.json --threads 1"
    )
    yield Subject("segment", segment, ("source", "rnn"), a_line_each(), ("out", "out.json"))
    select = (
        "select source --in-domain lm.arpa --general general.arpa --lines 2 -o out --processes 1"
    )
    yield Subject("select", select, ("source", "lm.arpa"), in_order("out", "source"))
    both = (
        "select source references --in-domain general.arpa --general lm.arpa "
        "--in-domain-target lm.arpa --general-target general.arpa --lines 2 -o out --processes 1 "
        "--target-output out.target --scores out.scores"
    )
    inputs = ("source", "references", "lm.arpa", "general.arpa")
    outputs = ("out", "out.target", "out.scores")
    check = in_order("out.target", "references")
    yield Subject("select pairs", both, inputs, check, outputs)
    system = (
        "build source references --alignments alignments --lm lm.arpa --lm-text mixed "
        "--lm-order 1 --workers 1 -o out"
    )
    inputs = ("source", "references", "alignments", "lm.arpa", "mixed")
    yield Subject("build", system, inputs, None, ("out/",))
    build = "build-lm source references --order 2 --discount-fallback -o out"
    yield Subject("build-lm", build, ("source", "references"))
    ppl = "perplexity references --model cslm --lm lm.arpa --mix-on mixed --threads 1"
    yield Subject("perplexity", ppl, ("references", "lm.arpa", "cslm", "mixed"), None, ())
    yield Subject("show", "show table --model rnn", ("table", "rnn"), None, ())
    yield Subject("show model", "show joint --format json", ("joint",), None, ())
    report = (
        "report nbest --source source --references references --tuning-report report.json "
        "--experiment made.experiment --only results --only tuning --only steps -o out"
    )
    shown = ("nbest", "references", "report.json", "made.experiment")
    yield Subject("report", report, shown, None, ("out/",))
    table = (
        "report table --model rnn --translation a=references --source source "
        "--references references --only phrases --only scores --only results -o out"
    )
    yield Subject("report table", table, ("table", "rnn", "references"), None, ("out/",))
    export = "export cslm -o out --moses-ini moses.ini --moses-ini-out out.ini"
    yield Subject("export", export, ("cslm", "moses.ini"), None, ("out", "out.ini"))
    words = ("out", "out.source_vocab", "out.target_vocab")
    yield Subject("export joint", "export joint -o out", ("joint",), None, words)
    experiment = "experiment experiment.toml -o out --dry-run"
    yield Subject(
        "experiment",
        experiment,
        ("experiment.toml", "moses.ini", "source", "references"),
        None,
        ("out/lock",),
    )
    text = "train encoder-decoder table -o out --updates 1 --threads 1 --config settings.toml"
    yield Subject("train settings", text, ("settings.toml",), None, ("out/",))
    small = "--set model.hidden_size=4 --set model.embedding_size=3 --updates 1 --threads 1 -o out"
    table = f"train encoder-decoder table {small} --source-corpus source"
    yield Subject("train table", table, ("table", "source"), None, ("out/",))
    vocabulary = (
        f"train lstm source references {small} --source-vocabulary rnn/source.vocab "
        "--target-vocabulary rnn/target.vocab"
    )
    inputs = ("source", "references", "rnn/source.vocab", "rnn/target.vocab")
    yield Subject("train text", vocabulary, inputs, None, ("out/",))
    joint = "train joint source references --alignments alignments --updates 1 --threads 1 -o out"
    yield Subject("train joint", joint, ("alignments", "source"), None, ("out/",))
    resumed = (
        "train encoder-decoder made.table --updates 2 --set model.hidden_size=8 --threads 1 "
        "--device cpu -o worked --resume"
    )
    yield Subject("train work", resumed, ("worked.work",), None, ("worked/",), ("worked.work/",))
    inputs = ("joined.work",)
    resumed = (
        "train joint source references --alignments alignments --updates 2 --threads 1 "
        "-o joined --resume"
    )
    yield Subject("train joint work", resumed, inputs, None, ("joined/",), ("joined.work/",))
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
        changes=("out.work/",),  # of a run that diverges
    )


SUBJECTS = {subject.name: subject for subject in (*_subjects(), *more_subjects())}
