"""What is damaged, in which command, and what has to come out if the command takes the file."""

from dataclasses import dataclass

from tests.fuzz.checks import (
    Check,
    a_line_each,
    all_of,
    best_of_lists,
    finite,
    in_order,
    scored_lists,
    scored_pairs,
    sorted_lists,
)
from tests.fuzz.material import AVERAGED, STOPPED_BUILDS


@dataclass(frozen=True)
class Subject:
    """A command, and the files of its that are damaged, one at a time.

    Paths stand in one string, with blanks between them.

    :ivar command: of phrasescore, or one of ``served.OWN_COMMANDS``; ``-o out`` is added where it
        has no output.
    :ivar damaged: paths of files, and of folders for each file in them.
    :ivar check: called where it took the file; returns what is wrong with the output.
    :ivar writes: files that it may write if it takes the damaged file; ``.work`` for a folder.
    :ivar may_change: files that it may change whatever becomes of it.
    :ivar share: how many cases it gets, less than 1 where they take long.
    """

    command: str
    damaged: str
    check: Check | None = None
    writes: str = "out"
    may_change: str = ""
    share: float = 1.0

    @property
    def words(self) -> list[str]:
        words = self.command.split()
        is_named = "-o" in words or "out" in words or "out" not in self.outputs
        return words if is_named else [*words, "-o", "out"]

    @property
    def files(self) -> list[str]:
        return self.damaged.split()

    @property
    def outputs(self) -> list[str]:
        return self.writes.split()

    @property
    def changes(self) -> list[str]:
        return self.may_change.split()


_HERE = "--threads 1 --engine here"
_ANNOTATE = f"annotate table --model rnn {_HERE}"
_RESCORE = f"rescore nbest --source source {_HERE}"
_ALIGNED = f"rescore aligned.nbest --source source --model joint {_HERE}"
_LEXICONS = "--lexicon f2e --reverse-lexicon e2f"
_WEIGHTS = "--references references --weights weights"
_LOOP = (
    "--decoder ./decoder.sh --source source --references references --iterations 1 --method xbleu "
    "--threads 1 -o out --working-dir"
)
_SEARCH = "source --tokenized --workers 1 --threads 1 --set limits.stack=5"
_GENERATE = f"source --beam 2 --max-length 9 {_HERE}"
_BOTH = (
    "select source references --in-domain general.arpa --general lm.arpa --in-domain-target "
    "lm.arpa --general-target general.arpa --lines 2 --target-output out.target"
)
_EXPLAINED = "--workers 1 --nbest out.nbest --nbest-size 3 --explain out.json --confidence"
_TRAIN = "--set model.hidden_size=4 --set model.embedding_size=3 --updates 1 --threads 1 -o out"
_JOINT = "train joint source references --alignments alignments --threads 1"
_TRAIN_LISTS = (
    "train joint --objective bleu --from joint --lists aligned.nbest --source source "
    "--references references --alignments alignments --weights weights --updates 1 "
    "--threads 1 -o out --set training.validation_share=0.25 --feature LM0"
)
_PLAN = (
    "init moses.ini --train source references --alignments alignments --dev source references "
    "--test source references --minutes 5"
)
_RAW = "build raw.source raw.target --lm-order 2 --workers 1 -o out"
# Networks by their folders, and their features; subwords is an lstm.
_NETWORKS = {
    "rnnsearch": "RNNsearch0",
    "grconv": "GrConv0",
    "lstm": "LSTM0",
    "cslm": "CSLM0",
    "subwords": "LSTM0",
    "transformer": "Transformer0",
}
_MARIAN = "marian/config.json marian/shared_vocabulary.json marian/source.spm marian/target.spm"
# Not model.bin: CTranslate2 reads it (SECURITY.md).
_GPT = "gpt/config.json gpt/vocabulary.json gpt/tokenizer.json short.nbest"

_SCORING = {
    "annotate": Subject(_ANNOTATE, "table rnn", scored_pairs(1)),
    "annotate columns": Subject(
        f"annotate table --scores table.numbers {_LEXICONS}",
        "table.numbers f2e e2f",
        scored_pairs(3),
    ),
    "annotate moses.ini": Subject(
        f"annotate moses.ini --model rnn {_HERE} -o new",
        "moses.ini",
        scored_pairs(1, out="new/table"),
        "new/",
    ),
    "annotate folder": Subject(
        f"annotate system --model rnn {_HERE} -o new",
        "system/system.toml system/moses.ini system/weights",
        scored_pairs(1, out="new/table"),
        "new/",
    ),
    "annotate work": Subject(
        f"{_ANNOTATE} -o scored --resume",
        "scored.part scored.part.json",
        scored_pairs(1, out="scored"),
        "scored",
        "scored.part scored.part.json",
    ),
    **{
        f"rescore {name}": Subject(f"{_RESCORE} --model {name}", name, scored_lists(feature))
        for name, feature in _NETWORKS.items()
    },
    "rescore": Subject(
        f"{_RESCORE} --model lstm --feature length_ratio --scores numbers=Own0",
        "nbest source numbers",
        scored_lists("LSTM0", "LengthRatio0", "Own0"),
    ),
    "rescore joint": Subject(
        _ALIGNED, "aligned.nbest joint", scored_lists("Joint0", nbest="aligned.nbest")
    ),
    "rescore cache": Subject(
        f"{_RESCORE} --model lstm --cache cache", "cache", scored_lists("LSTM0"), "out", "cache"
    ),
    "rescore work": Subject(
        f"{_RESCORE} --model lstm -o begun --resume",
        "begun.part begun.part.json",
        scored_lists("LSTM0", out="begun"),
        "begun",
        "begun.part begun.part.json",
    ),
    "rescore n-grams": Subject(
        f"{_RESCORE} --lm lm.arpa.gz {_LEXICONS}",
        "lm.arpa.gz f2e e2f",
        scored_lists("KenLM0", "Lexicon0", "ReverseLexicon0"),
    ),
    "rescore generator": Subject(
        f"rescore short.nbest --source short.source {_HERE} "
        "--column ctranslate2='gpt',prompt='{source}='",
        _GPT,
        scored_lists("CT20", nbest="short.nbest"),
    ),
    "rescore CTranslate2": Subject(
        f"{_RESCORE} --column ctranslate2='marian',target_language='fr'",
        _MARIAN,
        scored_lists("CT20"),
    ),
    "rescore program": Subject(
        f"{_RESCORE} --command ./program.sh", "answers", scored_lists("Program0"), share=0.5
    ),
    **{
        f"rescore {kind}": Subject(
            f"rescore {kind}.nbest --source source --model lstm --feature length_ratio {_HERE}",
            f"{kind}.nbest",
            scored_lists("LSTM0", "LengthRatio0", nbest=f"{kind}.nbest"),
        )
        for kind in ("joshua", "old", "sparse")
    },
    "score": Subject(
        "score source references --model lstm --lm lm.arpa --cache cache --threads 1",
        "source references lm.arpa cache",
        a_line_each(),
        "out",
        "cache",
    ),
}
_TUNING = {
    "rerank": Subject("rerank nbest --weights weights", "nbest weights", best_of_lists()),
    "rerank --nbest": Subject(
        "rerank nbest --weights weights --nbest out", "nbest", sorted_lists()
    ),
    **{
        f"{verb} {kind}": Subject(
            f"{verb} {kind}.nbest --weights {kind}.weights {more}",
            f"{kind}.nbest {kind}.weights",
            best_of_lists(f"{kind}.nbest") if verb == "rerank" else finite(),
        )
        for kind in ("joshua", "sparse")
        for verb, more in (
            ("rerank", ""),
            ("tune --lists", "--references references --method mira --threads 1"),
        )
    },
    "tune": Subject(
        f"tune --lists nbest {_WEIGHTS} --starts 1 --threads 1",
        "nbest references weights",
        finite(),
    ),
    "tune weight-file": Subject(
        "tune --lists sparse.nbest --references references --weights sparse.ini -o out "
        "--method xbleu --threads 1",
        "sparse.ini sparse.part sparse.nbest",
        finite("sparse.ini"),
    ),
    "tune decoder": Subject(
        f"tune moses.ini {_LOOP} new.loop",
        "decoded.nbest",
        finite(out="out/weights"),
        "out/ new.loop/",
        "new.loop/",
    ),
    "tune folder": Subject(
        "tune system --source source --references references --tokenized --iterations 1 "
        "--workers 1 --method xbleu --threads 1 -o out",
        "system/system.toml system/moses.ini system/weights",
        finite(out="out/weights"),
        "out/ out.work/",
        "out.work/",
        share=0.3,
    ),
    "tune work": Subject(
        f"tune moses.ini {_LOOP} loop --resume", "loop", finite(out="out/weights"), "out/", "loop/"
    ),
    "tune rescore": Subject(
        f"tune lists.toml {_LOOP} new.loop",
        "cslm general.arpa f2e e2f decoded.nbest",
        finite(out="out/weights"),
        "out/ new.loop/",
        "new.loop/",
    ),
    "evaluate": Subject(
        "evaluate references --references source --lists nbest --format json",
        "references source nbest",
        finite(),
    ),
}
_TRANSLATING = {
    "translate by a moses.ini": Subject(
        f"translate moses.ini {_SEARCH}", "source moses.ini table reordering lm.arpa", a_line_each()
    ),
    "translate by networks": Subject(
        f"translate networks.toml {_SEARCH}",
        "networks.toml networks.weights cslm joint table",
        a_line_each(),
    ),
    "translate": Subject(
        f"translate system.toml source --tokenized {_EXPLAINED}",
        "system.toml system.weights two.ini lm.arpa table source rnnsearch cslm f2e general.arpa "
        "reordering",
        all_of(a_line_each(), a_line_each(out="out.json")),
        "out out.nbest out.json",
    ),
    "translate text": Subject(
        f"translate text.toml raw {_EXPLAINED}",
        "raw text.toml truecaser",
        all_of(a_line_each("raw"), a_line_each("raw", "out.json")),
        "out out.nbest out.json",
    ),
    "translate by a folder": Subject(
        f"translate system raw {_EXPLAINED}",
        "system/system.toml system/moses.ini system/weights",
        all_of(a_line_each("raw"), a_line_each("raw", "out.json")),
        "out out.nbest out.json",
    ),
    "translate by an experiment": Subject(
        f"translate made.experiment {_SEARCH}",
        "made.experiment/table.toml made.experiment/+RNN",
        a_line_each(),
    ),
    "serve": Subject(
        "serve system.toml --port 0 --workers 1",
        "system.toml system.weights two.ini cslm rnnsearch",
        writes="",
        share=0.1,
    ),
    **{
        f"requests {system} {path}": Subject(f"ask {system}.toml {path} {files}", files, writes="")
        for system in ("system", "text")
        for path, files in (("/translate", "one.json many.json"), ("/RPC2", "call.xml"))
    },
    "upload": Subject("upload text.toml raw", "raw", writes=""),
    "generate": Subject(f"generate lstm {_GENERATE}", "source lstm", a_line_each()),
    "segment": Subject(
        "segment source --model rnn --reverse-model reverse --segments out.json --threads 1",
        "source rnn",
        a_line_each(),
        "out out.json",
    ),
}
_BUILDING = {
    "select pairs": Subject(
        _BOTH,
        "source references lm.arpa general.arpa",
        in_order("out.target", "references"),
        "out out.target",
    ),
    "build": Subject(
        "build source references --alignments alignments --lm lm.arpa --lm-text mixed "
        "--lm-order 1 --workers 1 -o out",
        "source references alignments lm.arpa mixed",
        writes="out/",
    ),
    **{
        f"build {name}": Subject(
            f"build {given} --workers 1 -o {name} --resume",
            f"{name}.work",
            None,
            f"{name}/",
            f"{name}.work/",
            share=0.3,
        )
        for name, _, given in STOPPED_BUILDS
    },
    "build text": Subject(
        f"{_RAW} --tokenize en fr --truecase --aligner fast-align",
        "raw.source raw.target",
        writes="out/",
        share=0.1,
    ),
    "build-lm": Subject(
        "build-lm source references --order 2 --discount-fallback", "source references"
    ),
    "perplexity": Subject(
        "perplexity references --model cslm --lm lm.arpa --threads 1",
        "references lm.arpa cslm",
        writes="",
    ),
    "show": Subject("show joint --format json", "joint", writes=""),
    "show folder": Subject("show system --format json", "system", writes=""),
    "report": Subject(
        "report --experiment made.experiment --only results -o out",
        "made.experiment/table.toml",
        writes="out/",
    ),
    "export": Subject(
        "export cslm --moses-ini moses.ini --moses-ini-out out.ini",
        "cslm moses.ini",
        writes="out out.ini",
    ),
    "export Moses": Subject(
        "export moses.ini --format moses --weights weights", "moses.ini weights"
    ),
    "export joint": Subject(
        "export joint", "joint", writes="out out.source_vocab out.target_vocab"
    ),
    "init": Subject(_PLAN, "moses.ini source references alignments table"),
    "experiment": Subject(
        "experiment experiment.toml -o out --dry-run",
        "experiment.toml moses.ini source references",
        writes="out/lock",
    ),
    "init monolingual": Subject(f"{_PLAN} --monolingual mixed", "mixed"),
    "experiment monolingual": Subject(
        "experiment monolingual.toml -o out --dry-run",
        "monolingual.toml mixed",
        writes="out/lock",
    ),
    "experiment outside": Subject(
        "experiment outside.toml -o out --dry-run",
        "outside.toml truecaser gpt/config.json",
        writes="out/lock",
    ),
}
_TRAINING = {
    "train settings": Subject(
        "train encoder-decoder table -o out --updates 1 --threads 1 --config settings.toml",
        "settings.toml",
        writes="out/",
    ),
    "train text": Subject(
        f"train lstm source references {_TRAIN}", "source references", writes="out/"
    ),
    "train texts": Subject(
        f"train cslm mixed references {_TRAIN}", "mixed references", writes="out/"
    ),
    "train joint": Subject(f"{_JOINT} --updates 1 -o out", "alignments source", writes="out/"),
    "train work": Subject(
        "train encoder-decoder made.table --updates 2 --set model.hidden_size=8 --threads 1 "
        "--device cpu -o worked --resume",
        "worked.work",
        writes="worked/",
        may_change="worked.work/",
    ),
    "train joint work": Subject(
        f"{_JOINT} --updates 2 -o joined --resume",
        "joined.work",
        writes="joined/",
        may_change="joined.work/",
    ),
    "train averaged": Subject(
        f"train lstm source references {AVERAGED} --updates 3 --threads 1 --resume",
        "averaged.work",
        writes="averaged/",
        may_change="averaged.work/",
    ),
    "train lists": Subject(
        _TRAIN_LISTS,
        "aligned.nbest source references alignments weights joint",
        writes="out/",
        may_change="out.work/",  # of a run that diverges
    ),
}
SUBJECTS = {**_SCORING, **_TUNING, **_TRANSLATING, **_BUILDING, **_TRAINING}
