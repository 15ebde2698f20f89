"""Choose the networks of an experiment by the amount of data, and divide the time among them.

The time of the steps is forecast. Training takes the minutes that the file gives it. The search is
measured on the user's own text and tables, in processor time, because other work on the machine
would decide the plan; all other figures were measured on one core of an AMD EPYC.
"""

import math
import time
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.moses import ListRequest
from phrasescore.errors import PhrasescoreError
from phrasescore.language_models.ngram_scorer import load_ngrams
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import FEW_PAIRS, KINDS
from phrasescore.systems.search import SearchTask, SearchWork
from phrasescore.workflows.bleu_training import BLEU_SHARE
from phrasescore.workflows.experiment.config import Experiment
from phrasescore.workflows.experiment.model_steps import MONOLINGUAL_STEP
from phrasescore.workflows.experiment.plan import build_plan
from phrasescore.workflows.experiment.rows import Row
from phrasescore.workflows.experiment.run import next_step
from phrasescore.workflows.experiment.steps import Step
from phrasescore.workflows.fold_lists import FOLDS
from tuning.loop import START_SHARES, TRIAL_SIZE

_USUAL_PAIRS = 29_000  # the sentence pairs for which `_NETWORKS` has minutes
# With more or less data a network needs more or less time, within these factors.
_LEAST_FACTOR, _MOST_FACTOR = 0.13, 10.0
_MOST_SCALE = 4  # a network gets at most this multiple of its usual time
_PARTS = 10_000  # into which the usual time is divided
# Fewer updates teach a network of text nothing.
_LEAST_UPDATES = 3_000
# Forecasts vary by some percent from one run to the next.
_MARGIN = 1.1

_TIMED = 20  # sentences that are translated to measure the search
_START = 4.0  # seconds until a process has imported torch
# Seconds that a network in the search takes for each word, with a small preset and without log Z:
# 1 / 5.2 - 1 / 12.9 for a sentence of 13 words (docs/performance.md), whatever the stack.
_SEARCHED = 0.009
_XBLEU = 0.004  # seconds per sentence and round
_ANNOTATED = 1 / 6_400  # seconds per line of the table (docs/performance.md: 189 s for 1,209,173)
# Seconds per line of monolingual text to estimate its n-gram model, and to load it: 3.6 s and 2.4 s
# for 78,000 lines of 16 words.
_ESTIMATED, _LOADED = 5e-5, 3e-5
# For each fold of the training text: seconds per line of the table to build it without the fold,
# and the speed with which its sentences are translated, as a share of the time of other ones.
_EXTRACTED, _FOLD_SPEED = 4e-5, 0.8
_READ = 0.004  # seconds for each of its lists, which training for BLEU reads
# Seconds for each sentence, with its list of 100 hypotheses, and each RNNsearch.
_RESCORED = 0.03


@dataclass(frozen=True)
class TuningPlan:
    """How much tuning there is time for."""

    rounds: int  # at most, for rows without a network in the search
    # At most, for rows with one. With 2 rounds a joint model gained 0.03 BLEU, with 6 rounds 0.70.
    search_rounds: int
    sentences: int | None = None  # of dev at most; None for all


# From the most to the least time; docs/results.md has the first one. With 2 rounds, a system
# of `build` kept its untuned weights. A row has about 16 weights, for which 20 sentences each are
# enough.
PLANS = (
    TuningPlan(6, 6),
    TuningPlan(3, 5),
    TuningPlan(3, 5, sentences=1_000),
    TuningPlan(3, 5, sentences=500),
)


@dataclass(frozen=True)
class NetworkChoice:
    """A network, its place in a system, and how it is trained."""

    model: str
    kind: str
    place: str  # of `Row`
    label: str  # in names of rows
    use: str  # what it is, for the file
    pairs: int  # number of sentence pairs from which it is worth its time
    minutes: float  # of training on one core
    least: float  # minutes below which it gains nothing
    keys: tuple[str, ...] = ()  # further keys of its table in the file, with their values
    epochs: float = 0.0
    problem: str = ""  # why the experiment does without it

    def at(self, scale: float) -> "NetworkChoice":
        """Return a copy with a multiple of the training time, rounded down to 0.1 minutes."""
        minutes = max(self.least, self.minutes * scale)
        return replace(self, minutes=max(0.1, math.floor(10 * minutes) / 10))


_FAST = ("unnormalized = true",)  # several times as fast in the search (docs/performance.md)
_NORMALIZED = "set.model.self_normalization = 0.1"
_BACKWARD = ('kind = "rnnsearch"', "right_to_left = true", "seed = 2")
_BLEU = ('objective = "bleu"',)
# In the order in which networks get time. Each comment has the gain in BLEU on the test set of
# docs/results.md, with the minutes for its 29,000 sentence pairs.
_NETWORKS = (
    # +2.1 in 16 minutes, the most for its time.
    NetworkChoice("joint", "joint", "search", "joint", "a joint model in the search",
                  1_000, 16, 3, _FAST),
    # In place of a joint model, which needs a word alignment: +1.9 with the column.
    NetworkChoice("cslm", "cslm", "search", "CSLM", "a language model in the search",
                  1_000, 10, 2, (*_FAST, _NORMALIZED)),
    # +3.1 to +4.5 in 30 minutes; +1.7 in 16 and nothing in 8, which were with the full softmax.
    NetworkChoice("rnnsearch", "rnnsearch", "lists", "RNNsearch", "RNNsearch on n-best lists",
                  1_000, 30, 8),
    # +0.2 to +0.8 in 24 to 95 minutes, and 0.9 more by training for BLEU; any Moses can use it.
    NetworkChoice("encoder-decoder", "encoder-decoder", "columns", "RNN",
                  "a score in the phrase table, trained for BLEU", 1_000, 24, 4, _BLEU),
    # +0.8 over the first one, more than by training that one longer.
    NetworkChoice("backward", "rnnsearch", "lists", "both ways",
                  "RNNsearch from right to left, too", 1_000, 30, 12, _BACKWARD),
)  # fmt: skip

# With few sentence pairs, networks in the search and the table gained with an n-gram perplexity of
# 21 (the shipped example), and nothing with 371 (4,071 pairs of news). It is 52 with 1,500 pairs of
# Multi30k, and 74 with 5,612 pairs of news.
_VARIED = 60

_SHORTLIST = "set.vocabulary.target_size = 30_000"
_SHORTLISTS = ("set.vocabulary.source_size = 30_000", _SHORTLIST)
# Few sentence pairs of few patterns are learned faster by a small network of words: the shipped
# example, 9,200 pairs. With 1,500 pairs of Multi30k, 12 epochs of large batches learned nothing.
_SMALL = (
    'preset = "rnnsearch-small"',
    "set.model = { hidden_size = 128, embedding_size = 96, alignment_size = 128 }",
)
_FEWEST_PAIRS, _BATCH = 4_000, 32
_OFTEN = (
    f"set.training = {{ learning_rate = 2e-3, batch_size = {_BATCH}, validation_updates = 100 }}"
)
_LARGE = 300_000  # pairs from which shortlists are larger
# Rare words, which cost little time with a sampled softmax.
_LARGER = {
    **dict.fromkeys(("joint", "rnnsearch", "encoder-decoder"), _SHORTLISTS),
    "cslm": (_SHORTLIST,),
}


def choose_networks(
    pairs: int,
    perplexity: float = 0.0,
    *,
    has_alignment: bool = True,
    cross_fits: bool = True,
    characters: bool = False,
) -> list[NetworkChoice]:
    """Return all networks for a number of sentence pairs, with their usual training times.

    Networks that the experiment does without have a ``problem``.

    :param perplexity: of the system's n-gram model on dev, which says how varied the text is.
    :param has_alignment: whether there is a word alignment of the training text.
    :param cross_fits: whether the training text can be translated for training for BLEU.
    :param characters: whether the system translates characters.
    """
    factor = min(max(pairs / _USUAL_PAIRS, _LEAST_FACTOR), _MOST_FACTOR)
    is_varied = pairs < FEW_PAIRS and perplexity > _VARIED
    if is_varied:
        factor = 1.0  # 25 minutes for 4,071 pairs of news
    choices = []
    for each in _NETWORKS:
        problem = ""
        if characters and each.kind != "rnnsearch":
            problem = "it reads words, and this system's tables have characters"
        elif each.model == "joint" and not has_alignment:
            problem = "it needs a word alignment of the training text: [data] alignments"
        elif each.model == "cslm" and has_alignment:
            problem = "a joint model gains more; the row +CSLM+joint+RNN has both"
        elif is_varied and each.place != "lists":
            problem = (
                f"{pairs:,} sentence pairs of varied text are too few for it: the n-gram model has "
                f"a perplexity of {perplexity:.0f} on dev, and it has gained only below {_VARIED}"
            )
        elif pairs < each.pairs:
            problem = f"it learns too little from {pairs:,} sentence pairs; it needs {each.pairs:,}"
        kind, keys = KINDS[each.kind], each.keys
        is_small = each.kind == "rnnsearch" and not is_varied
        preset = kind.default_preset if characters or is_small else kind.preset_for(pairs)
        if preset != kind.default_preset:
            keys = (f'preset = "{preset}"', *keys)
        elif is_small and pairs < FEW_PAIRS and not characters:
            often = _OFTEN if pairs < _FEWEST_PAIRS else "set.training.learning_rate = 3e-3"
            keys = (*_SMALL, *keys, often)
        elif pairs >= _LARGE:
            keys = (*keys, *_LARGER[each.kind])
        if not cross_fits:
            keys = tuple(key for key in keys if key not in _BLEU)
        if characters:
            keys = (*keys, "set.vocabulary.subwords = 1")
        training = Config.preset(preset).training
        epochs = training.epochs * (1 if pairs < FEW_PAIRS else _MOST_SCALE)
        if each.kind != "encoder-decoder":
            batch = _BATCH if pairs < _FEWEST_PAIRS else training.batch_size
            updates = training.updates or _LEAST_UPDATES
            epochs = max(epochs, math.ceil(updates * batch / pairs))
        choice = replace(each, keys=keys, epochs=epochs, problem=problem)
        choices.append(replace(choice, minutes=each.minutes * factor, least=each.least * factor))
    return choices


def divide_time(
    choices: Sequence[NetworkChoice],
    seconds_of: Callable[[Sequence[NetworkChoice], TuningPlan], float],
    minutes: float | None,
) -> tuple[list[NetworkChoice], TuningPlan]:
    """Return the networks with their training times, and the plan of tuning.

    A network for which there is no time, beside the more useful ones, gets a ``problem``.

    :param seconds_of: returns how long an experiment with these networks and this plan takes.
    :param minutes: the time of the whole experiment; None for the usual training times.
    :raises PhrasescoreError: if there is no time for any network.
    """
    if minutes is None:
        return [each.at(1) for each in choices], PLANS[0]

    def seconds(kept: Sequence[NetworkChoice], plan: TuningPlan, part: int = 0) -> float:
        return seconds_of([each.at(part / _PARTS) for each in kept], plan)

    limit, kept, alone = 60 * minutes, list[NetworkChoice](), list[float]()
    for each in (each for each in choices if not each.problem):
        more = [*kept, each]
        if each.label != "both ways" or any(other.label == "RNNsearch" for other in kept):
            needed = seconds(more, PLANS[-1])
            if needed <= limit:
                kept = more
            elif not kept:
                alone.append(needed)
    if alone and not kept:
        needed = math.ceil(_MARGIN * min(alone) / 60)
        problem = f"no network fits into {minutes:g} minutes"
        raise PhrasescoreError(f"{problem}: needs --minutes {needed}")
    # Training gains more than tuning: RNNsearch +3.1 BLEU in 30 minutes, +1.7 in 16, 0 in 8.
    half = _PARTS // 2
    plan = next((each for each in PLANS if seconds(kept, each, half) <= limit), PLANS[-1])
    parts = range(_MOST_SCALE * _PARTS + 1)
    found = bisect(parts, limit, key=lambda part: seconds(kept, plan, part))
    scale = parts[max(0, found - 1)] / _PARTS
    problem = f"there is no time for it in {minutes:g} minutes"
    return [
        each.at(scale) if each in kept else replace(each.at(1), problem=each.problem or problem)
        for each in choices
    ], plan


def rows_of(kept: Sequence[NetworkChoice], plan: TuningPlan) -> Iterator[Row]:
    """Yield the rows: the baseline, one for each place that has networks, and one with all."""
    yield Row("Baseline")
    used = {
        place: [each for each in kept if each.place == place]
        for place in ("search", "columns", "lists")
    }
    used = {place: choices for place, choices in used.items() if choices}
    for places in (*([place] for place in used), *([[*used]] if len(used) > 1 else [])):
        names = ("+".join(each.label for each in used[place]) for place in places)
        name = f"+{'+'.join(names)}".replace("+both ways", " both ways")
        models = {place: tuple(each.model for each in used[place]) for place in places}
        rounds = plan.search_rounds if "search" in places else plan.rounds
        yield Row(name, **models, iterations=None if rounds == plan.rounds else rounds)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Forecast:
    """Forecasts an experiment of which only some networks and their rows are kept."""

    wanted: Experiment  # with the rows of all networks
    folder: Path
    sizes: Mapping[Path, int]  # the number of sentences in each source and monolingual text
    pairs: int  # of training sentences
    words: float  # in a sentence
    phrases: int  # lines of the phrase table
    loading: float  # seconds to load the tables
    sentence: float  # seconds for a sentence, in one process without networks

    def steps(self, kept: Sequence[NetworkChoice], tuning: TuningPlan) -> dict[Step, float]:
        """Return the seconds that each step takes at most, in order."""
        rows = tuple(rows_of(kept, tuning))
        plan = build_plan(replace(self.wanted, systems=rows), self.folder, is_checked=True)
        lines = sum(self.sizes[path] for path in self.wanted.data.monolingual)
        loading = self.loading + _LOADED * lines
        seconds = {MONOLINGUAL_STEP: _ESTIMATED * lines}
        for each in kept:
            has_parts = not set(_BLEU).isdisjoint(each.keys)
            seconds[f"train {each.model}.start"] = 60 * each.minutes
            seconds[f"train {each.model}"] = 60 * each.minutes
            if has_parts:
                seconds[f"train {each.model}"] *= BLEU_SHARE
                seconds[f"train {each.model}"] += _READ * self.pairs
        seconds["translate folds"] = (
            FOLDS * _EXTRACTED * self.phrases + self.pairs * _FOLD_SPEED * self.sentence
        )
        for run in plan.runs:
            networks = len(run.row.search)
            searched = self.sentence + self.words * _SEARCHED * networks
            searched /= self.wanted.engine.processes or 1
            scored = searched + _RESCORED * len(run.row.lists)
            rounds = run.row.iterations or tuning.rounds
            trials = 1 + networks * len(START_SHARES) if networks else 0
            for step in (step for step in plan.steps if run.folder in step.outputs[0].parents):
                count = next((self.sizes[path] for path in step.inputs if path in self.sizes), 0)
                tuned = min(count, tuning.sentences or count)
                seconds[step.name] = {
                    "tune": loading
                    + rounds * tuned * (scored + _XBLEU)
                    + trials * min(tuned, TRIAL_SIZE) * searched,
                    "translate": loading + count * scored,
                }[step.function]
        annotating = _ANNOTATED * self.phrases
        return {step: _START + seconds.get(step.name, annotating) for step in plan.steps}

    def total(self, kept: Sequence[NetworkChoice], tuning: TuningPlan) -> float:
        """Return the seconds that the whole experiment takes at most."""
        return total_seconds(self.steps(kept, tuning), self.wanted.engine.jobs)


def measure_perplexity(
    configuration: DecoderConfiguration, sentences: Sequence[Sequence[str]]
) -> float:
    """Return the perplexity of the first n-gram model on a text; 0 without a model or words."""
    paths = [slot.arguments["path"] for slot in configuration.language_models()]
    if not paths or not any(sentences):
        return 0.0
    log_probs, _ = load_ngrams(paths[0]).score_words(sentences)
    return math.exp(-float(log_probs.mean()))


def measure_search(
    configuration: DecoderConfiguration, sentences: Sequence[tuple[str, ...]]
) -> tuple[float, float]:
    """Return the processor seconds to load the tables, and to translate a sentence."""
    sample = sentences[:: max(1, len(sentences) // _TIMED)][:_TIMED]
    weights = {slot.name: slot.weights for slot in configuration.slots}
    work = SearchWork(configuration, (), (), weights, sample)
    tasks = [
        SearchTask(number, words, weights, ListRequest(100, distinct=True))
        for number, words in enumerate(sample)
    ]
    work.load()(tasks[0])  # compiles the search, which is kept for later processes
    start = time.process_time()
    translate = work.load()
    loaded = time.process_time()
    for task in tasks:
        translate(task)
    return loaded - start, (time.process_time() - loaded) / len(sample)


def total_seconds(seconds: Mapping[Step, float], jobs: int) -> float:
    """Return how long all steps take if ``jobs`` steps run at a time, in an experiment's order."""
    waiting, ends, now = list(seconds), dict[Step, float](), 0.0
    while waiting or ends:
        while len(ends) < jobs and (step := next_step(waiting, list(ends))) is not None:
            waiting.remove(step)
            ends[step] = now + seconds[step]
        ended = min(ends, key=ends.__getitem__)
        now = ends.pop(ended)
    return now
