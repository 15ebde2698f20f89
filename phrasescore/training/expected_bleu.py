"""Training for expected BLEU: the loss of an n-best list is minus its expected BLEU.

The network is one feature of a log-linear model with fixed weights and other features, and the
likelihood of some pairs is a regulariser.

Gao et al. (2014), Learning Continuous Phrase Representations for Translation Modeling, section 4;
Auli and Gao (2014), Decoder Integration and Expected BLEU Training for Recurrent Neural Network
Language Models, section 4.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from phrasescore.errors import PhrasescoreError
from phrasescore.io.journal import digest_text
from phrasescore.models.checkpoint import Checkpoint, FineTuning
from phrasescore.models.layers import PairNetwork
from phrasescore.settings.config import TrainingConfig
from phrasescore.training.draw import held_out_size
from phrasescore.training.loop import TrainingLoop, TrainingProgress
from phrasescore.training.ranks import Ranks
from phrasescore.training.run import Task, TrainingRun
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.stores import KnownScores, ListBatch, ListStore

# The standard deviation of scaled totals in the held-out lists at the start. (The scales in
# tuning/expected_bleu.py go from 1 to 16.)
_SPREAD = 2.0


def expected_gains(scores: KnownScores, values: Tensor, *, weight: float, scale: float) -> Tensor:
    """Return each list's expected gain, ``(lists,)``, differentiable with respect to ``values``.

    The probability of a hypothesis is softmax(scale * total) over its list. The total is its model
    score plus ``weight`` times its value, the network's log-probability.

    :param values: ``(hypotheses,)`` float64.
    :param scale: gamma in the papers, above 0.
    """
    lists, size = scores.lists, scores.num_lists
    totals = scale * (scores.model_scores + weight * values)
    highest = totals.new_full((size,), -torch.inf)
    highest = highest.scatter_reduce(0, lists, totals.detach(), "amax")
    shares = (totals - highest[lists]).exp()
    gains = totals.new_zeros(size).index_add(0, lists, shares * scores.gains)
    return gains / totals.new_zeros(size).index_add(0, lists, shares)


def _spread(found: Sequence[tuple[KnownScores, Tensor]], weight: float) -> float:
    """Return the standard deviation of the totals within their lists, over all hypotheses."""
    square, size = 0.0, 0
    for scores, values in found:
        totals = scores.model_scores + weight * values
        sums = totals.new_zeros(scores.num_lists).index_add(0, scores.lists, totals)
        means = sums / torch.bincount(scores.lists, minlength=scores.num_lists)
        square += float((totals - means[scores.lists]).square().sum())
        size += len(totals)
    return math.sqrt(square / size)


class ExpectedBleuLoop(TrainingLoop):
    """Maximise the expected BLEU of n-best lists; see `TrainingLoop`."""

    def __init__(
        self,
        network: PairNetwork,
        store: ListStore,
        config: TrainingConfig,
        folder: RunFolder,
        report: Callable[[TrainingProgress], None],
        tuning: FineTuning,
    ) -> None:
        self._weight, self._likelihood = tuning.weight, tuning.likelihood
        super().__init__(network, store, config, folder, report, Ranks())

    def _begin(self) -> None:
        # All later validations are compared with the start.
        if not self.state.curve:
            found = [(batch.scores, values) for batch, values in self._held_out_values()]
            spread = _spread(found, self._weight)
            self.state.scale = _SPREAD / spread if spread else 1.0
            self._validate()
            self._save()

    def _count(self, batch: ListBatch) -> tuple[int, int]:
        sides = (*batch.pairs, *(batch.taught or batch.pairs))
        return sum(int(side.lengths.sum()) for side in sides), batch.scores.num_lists

    def _make_gradient(self, batch: ListBatch, count: int) -> Tensor:
        network = self._network
        # Disable dropout, which would drop different units for hypotheses that are compared.
        network.eval()
        with self._autocast:
            log_probs = network(batch.pairs)
            values = batch.values(log_probs)
        loss_sum = -self._expected(batch, values).sum()
        network.train()
        if self._likelihood:
            pairs = batch.taught or batch.pairs
            if batch.taught or network.config.dropout:
                self._seed_update()
                with self._autocast:
                    log_probs = network(pairs)
            predicted = int((pairs.target.lengths + 1).sum())
            taught = log_probs.double().sum()
            loss_sum = loss_sum - self._likelihood * count * taught / predicted
        return self._add_gradients(loss_sum, count)

    def _expected(self, batch: ListBatch, values: Tensor) -> Tensor:
        scale = self.state.scale
        return expected_gains(batch.scores, values, weight=self._weight, scale=scale)

    def _measure(self) -> float:
        total = sum(float(self._expected(*each).sum()) for each in self._held_out_values())
        expected = total / self.num_held_out
        self._check_finite(expected, self.state.update, "expected BLEU")
        return expected

    def _shown(self, quality: float) -> tuple[float | None, float | None]:
        return None, 100 * quality

    def _held_out_values(self) -> Iterator[tuple[ListBatch, Tensor]]:
        for batch in self._held_out_batches(self._config.batch_size):
            yield batch, batch.values(self._network(batch.pairs))


@dataclass(frozen=True, kw_only=True)
class ListRun(TrainingRun):
    """A run on n-best lists, which are not stored: a resumed run reads them again.

    :param tuning: what is recorded, except the numbers of lists and the scale.
    """

    joins_ranks: ClassVar = False

    start: Checkpoint
    tuning: FineTuning
    read: Callable[[], ListStore]

    def prepare(self, folder: RunFolder, _ranks: Ranks, *, is_resumed: bool) -> Task:  # noqa: ARG002
        store, training = self.read(), self.config.training
        inputs = {**store.inputs, "likelihood": repr(self.tuning.likelihood)}
        folder.set_inputs(inputs)
        num_held_out = held_out_size(training, len(store))
        if not num_held_out:
            raise PhrasescoreError(
                f"no list would be held out of {len(store)} lists with training.validation_share "
                f"{training.validation_share} and training.validation_pairs "
                f"{training.validation_pairs}: give more lists, or increase these settings"
            )
        lists = len(store) - num_held_out
        tuning = replace(self.tuning, lists=lists, held_out_lists=num_held_out)
        network = self.start.model
        assert isinstance(network, PairNetwork)
        network = network.requires_grad_().train().to(self.device)
        record = replace(
            self.start.record, data_fingerprint=_fingerprint(inputs), fine_tuning=tuning
        )
        return Task(
            replace(self.start, model=network, config=self.config, record=record),
            [
                f"{len(store):,} lists, {len(store.gains):,} hypotheses",
                f"{num_held_out:,} lists held out",
                f"{tuning.feature} with the weight {tuning.weight:g}",
            ],
            lambda report: ExpectedBleuLoop(network, store, training, folder, report, tuning),
        )

    def has_made(self, model: Checkpoint, folder: RunFolder) -> bool:
        return model.record.data_fingerprint == _fingerprint(folder.inputs or {})


def _fingerprint(inputs: Mapping[str, str]) -> str:
    return digest_text(repr(sorted(inputs.items())))
