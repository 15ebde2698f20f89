"""Train a network further for BLEU, on lists of training text, as a column of the phrase table."""

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from moses_integration import alignments
from moses_integration.moses_ini import load_weights
from moses_integration.nbest import NbestList, read_every_list
from phrasescore.arguments import StrPath
from phrasescore.io.output import writing
from phrasescore.io.text import read_lines
from phrasescore.models.checkpoint import TrainingRecord
from phrasescore.progress import ProgressCallback
from phrasescore.records import PhrasePair, Weights, split_words
from phrasescore.settings.compute import Compute
from phrasescore.settings.training import ListTraining, ListTuning, UnfinishedRun
from phrasescore.systems.folder import WEIGHTS
from phrasescore.workflows.fine_tune import fine_tune
from phrasescore.workflows.fold_lists import lists_in
from phrasescore.workflows.load_model import load_model
from phrasescore.workflows.tune_lists import tune

_TUNED = 1_500  # lists for the weights: more than dev sets have
_NAME = "Column0"  # the network's feature in these lists
# A network with a smaller weight, as a share of the largest one of the table, could learn nothing.
_LEAST = 0.1


def fine_tune_column(
    model: StrPath,
    lists: Path,
    source: Path,
    target: Path,
    output: StrPath,
    *,
    kind: str | None = None,
    settings: ListTraining = ListTraining(),
    state: UnfinishedRun = UnfinishedRun(),
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> TrainingRecord:
    """Train a network further for BLEU as a new score of a system's phrase table.

    The lists have no values of the network yet: first all weights are tuned with it on the first
    lists, and then `fine_tune` trains the network on all lists with these weights.

    :param lists: the folder of `write_fold_lists` for the text ``source`` and ``target``.
    :param settings: their ``feature`` is the new score, such as ``TranslationModel0_4``.
    """
    weights = _tune_with(model, lists, source, target, str(settings.feature), compute)
    return fine_tune(
        model,
        lists_in(lists),
        source,
        [target],
        weights,
        output,
        kind=kind,
        settings=settings,
        state=state,
        compute=compute,
        progress=progress,
    )


def _tune_with(
    model: StrPath, lists: Path, source: Path, target: Path, feature: str, compute: Compute
) -> Weights:
    start = load_weights(lists / WEIGHTS).lists
    path = lists_in(lists)[0]
    sentences = [split_words(line.decode()) for line in islice(read_lines(str(source)), _TUNED)]
    read = list(islice(read_every_list(str(path)), _TUNED))
    phrases = [list(_phrases(each, sentences[each.id])) for each in read]
    pairs = list(dict.fromkeys(pair for rows in phrases for row in rows for pair in row))
    log_probs = load_model(model, compute=compute).score(*zip(*pairs, strict=True))
    values = dict(zip(pairs, log_probs, strict=True))
    with tempfile.TemporaryDirectory(prefix="phrasescore-") as folder:
        names = [Path(folder) / name for name in ("lists", "references")]
        with writing(names[0]), open(names[0], "wb") as file:
            for each, rows in zip(read, phrases, strict=True):
                for raw, row in zip(each.raws, rows, strict=True):
                    fields = raw.split(b"|||")
                    fields[2] += b"%s= %.7g " % (_NAME.encode(), sum(values[pair] for pair in row))
                    file.write(b"|||".join(fields) + b"\n")
        lines = islice(read_lines(str(target)), len(read))
        names[1].write_bytes(b"".join(line + b"\n" for line in lines))
        tuned = tune(
            names[:1],
            names[1:],
            {**start, _NAME: (0.0,)},
            settings=ListTuning(method="xbleu"),
            compute=Compute(threads=compute.threads),
        )
    weights = dict(tuned.weights.lists)
    own = weights.pop(_NAME)[0]
    name = feature.rpartition("_")[0]
    table = weights[name]
    weights[name] = (*table, max(own, _LEAST * max(map(abs, table))))
    return weights


def _phrases(nbest: NbestList, source: tuple[str, ...]) -> Iterator[list[PhrasePair]]:
    words = nbest.distinct()
    for index, raw in enumerate(nbest.raws):
        found = words[nbest.hypotheses[index]]
        spans = alignments.parse_segmentation(
            raw, len(source), len(found), nbest.path, nbest.first_line + index
        )
        yield [span.of(source, found) for span in spans]
