"""Rerank n-best lists, or select the best hypothesis of each."""

import logging
import os
from contextlib import nullcontext
from dataclasses import dataclass

from moses_integration.list_features import Values, WeightedSum, feature_matrix, sorted_lines
from moses_integration.moses_ini import WeightsSource, load_weights, weights_path
from moses_integration.nbest import NbestList, read_every_list
from moses_integration.nbest_values import Hypothesis, HypothesisLists, hypotheses_of, lists_of
from moses_integration.weight_lines import check_weights
from phrasescore.arguments import StrPath, check_sequences
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
    score = _MatchedSum(weights)
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
        score.check_used()
    return RerankSummary(sentences, meter.done, moved, tuple(sorted(score.unweighted)))


def rerank_lists(lists: HypothesisLists, *, weights: WeightsSource) -> list[list[Hypothesis]]:
    """Return the hypotheses for each sentence in the order of a new score, as `rerank` does."""
    check_sequences(lists=lists)
    score = _MatchedSum(weights)
    lines = b"".join(sorted_lines(found, score(found)) for found in lists_of(lists))
    if lists:
        score.check_used()
    return hypotheses_of(lines)


class _MatchedSum(WeightedSum):
    """A weighted sum whose weights may have other names of the same features than the lists."""

    def __init__(self, weights: WeightsSource) -> None:
        self._where = weights_path(weights) or "the weights"
        super().__init__(load_weights(weights).lists)
        check_weights(self.weights, self._where)

    def __call__(self, nbest: NbestList) -> Values:
        """Return the weighted sum for each hypothesis; the first list says the names."""
        if not self.used:
            names = feature_matrix(nbest).sizes
            self.weights = old_names.weights_for(names, self.weights)
        return super().__call__(nbest)

    def check_used(self) -> None:
        """Check the weights of features that the lists have; warn of other weights."""
        used = {name: self.weights[name] for name in self.used}
        check_weights(used, f"{self._where}, of features that the lists have")
        unused = [name for name in self.weights if name not in self.used]
        if unused:
            _logger.warning(
                "no hypothesis has these features, which have weights: %s", ", ".join(unused)
            )
