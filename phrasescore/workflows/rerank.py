"""Rerank n-best lists, or select the best hypothesis of each."""

import logging
import os
from contextlib import nullcontext
from dataclasses import dataclass

from moses_integration.list_features import WeightedSum, feature_matrix, sorted_lines
from moses_integration.moses_ini import WeightsSource, load_weights, weights_path
from moses_integration.nbest import read_every_list
from moses_integration.weight_lines import check_weights
from phrasescore.arguments import StrPath
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.io.text import decode
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings import old_names

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RerankSummary:
    """How a new score changed the n-best lists."""

    sentences: int  # number of sentences, including those without a list
    hypotheses: int
    moved: int  # number of sentences whose best hypothesis differs from the decoder's
    unweighted: tuple[str, ...]  # features without a weight, in alphabetical order


def rerank(
    nbest: StrPath,
    output: StrPath,
    *,
    weights: WeightsSource,
    lists: StrPath | None = None,
    allow_missing: bool = False,
    progress: ProgressCallback | None = None,
) -> RerankSummary:
    """Order the hypotheses in n-best lists by a new score, and write the best of each list.

    The output has one line per source sentence, in order. Hypotheses with equal scores keep the
    decoder's order. Scores are natural logarithms.

    :param weights: the hypotheses are ordered by the weighted sum of their features, with weights
        from a moses.ini, from ``Name= value`` lines, or from a mapping by feature name.
    :param lists: a file for the whole lists in the new order, with the new score as total.
    :param allow_missing: whether to write an empty line for sentences without an n-best list.
    """
    nbest, output, lists = os.fspath(nbest), os.fspath(output), optional_path(lists)
    check_files((nbest, weights_path(weights)), (output, lists))
    score, where = WeightedSum(load_weights(weights).lists), weights_path(weights) or "the weights"
    check_weights(score.weights, where)
    every_list = read_every_list(
        nbest, allow_missing=allow_missing, cure="--allow-missing writes an empty line"
    )
    sentences = moved = 0
    with (
        open_output(output) as stream,
        nullcontext() if lists is None else open_output(lists) as list_file,
        Meter("rerank", "hypotheses", progress, lines_of=nbest) as meter,
    ):
        for found in every_list:
            sentences += 1
            if not found.data:
                stream.write(b"\n")
                continue
            if not score.used:  # the weights may have older names than the first list
                names = feature_matrix(found).sizes
                score.weights = old_names.weights_for(names, score.weights)
            scores = score(found)
            # The same text may occur in a list several times.
            best = int(scores.argmax())  # on ties, the first one
            text = found.hypothesis(best)
            moved += text != found.hypothesis(0)
            decode(found.path, found.first_line + best, found.lines(best, best + 1).raw)
            stream.write(text.strip(b" ") + b"\n")
            if list_file is not None:
                list_file.write(sorted_lines(found, scores))
            meter.update(found.num_lines)
        used = {name: score.weights[name] for name in score.used}
        check_weights(used, f"{where}, of features that the lists have")
        unused = [name for name in score.weights if name not in score.used]
        if unused:
            _logger.warning(
                "no hypothesis has these features, which have weights: %s", ", ".join(unused)
            )
    return RerankSummary(sentences, meter.done, moved, tuple(sorted(score.unweighted)))
