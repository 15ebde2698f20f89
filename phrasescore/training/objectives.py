"""Training objectives: the likelihood of pairs, or the expected BLEU of n-best lists.

For pairs, the loss is -log p, and validation measures the perplexity.

For n-best lists, the loss of a list is minus its expected BLEU. The network is one feature of a
log-linear model with fixed weights and other features, and the likelihood of training pairs is a
regulariser. If the expected BLEU of the held-out lists does not improve at a validation, the best
weights are restored and the learning rate is halved.

Gao et al. (2014), Learning Continuous Phrase Representations for Translation Modeling, section 4;
Auli and Gao (2014), Decoder Integration and Expected BLEU Training for Recurrent Neural Network
Language Models, section 4.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from phrasescore.arguments import flag
from phrasescore.errors import ConfigError, ModelError, PhrasescoreError, shown_path
from phrasescore.io.journal import digest_text
from phrasescore.models.batches import PairBatch
from phrasescore.models.checkpoint import (
    Checkpoint,
    FineTuning,
    TrainingRecord,
    direction_of,
    empty_network,
)
from phrasescore.models.layers import PairNetwork
from phrasescore.settings.config import TrainingConfig
from phrasescore.training.loop import TrainingLoop, TrainingProgress
from phrasescore.training.optimizers import build_optimizer
from phrasescore.training.pair_store_writer import (
    CountedPair,
    Shortlist,
    fingerprint_input,
    write_pair_store,
)
from phrasescore.training.ranks import Ranks
from phrasescore.training.run import NETWORK_PROBLEM, Task, TrainingRun, enough_memory
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.stores import KnownScores, ListBatch, ListStore, PairStore, held_out_size

_logger = logging.getLogger(__name__)

# Number of pairs in a validation batch.
_VALIDATION_BATCH = 256
# The initial standard deviation of scaled totals in the held-out lists. (The scales in
# tuning/expected_bleu.py range from 1 to 16.)
_SPREAD = 2.0


class LikelihoodLoop(TrainingLoop):
    """Maximise the likelihood of the targets; see `TrainingLoop`."""

    def _count(self, batch: PairBatch) -> tuple[int, int]:
        target_words = int(batch.target.lengths.sum())
        words = int(batch.source.lengths.sum()) + target_words
        return words, target_words + len(batch.target.lengths)

    def _make_gradient(self, batch: PairBatch, count: int) -> Tensor:
        if not len(batch.target.lengths):  # a last batch of fewer pairs than there are ranks
            return torch.zeros(())
        if self._network.config.dropout > 0:
            self._seed_update()
        with self._autocast:
            loss_sum = -self._network(batch).float().sum()
        return self._add_gradients(loss_sum, count)

    def _measure(self) -> float:
        """Return minus the perplexity, exp(-log p per predicted word, including ``</s>``)."""
        total, words = 0.0, 0.0
        for batch in self._held_out_batches(_VALIDATION_BATCH):
            words += self._count(batch)[1]
            total -= self._network(batch).double().sum().item()
        total, words = self._ranks.sum([total, words])
        self._check_finite(total, self.state.update, "validation loss")
        return -math.exp(min(total / words, 700.0))

    def _shown(self, quality: float) -> tuple[float | None, float | None]:
        return -quality, None


@dataclass(frozen=True, kw_only=True)
class PairRun(TrainingRun):
    """A run on pairs. For a language model, sentences are targets without a source.

    :param read: opens the inputs and yields their pairs.
    :param shortlists: returns the shortlists for the side that the network reads and for the side
        that it predicts. It may read a corpus, so it is called only when the pairs are read.
    """

    read: Callable[[], Iterable[CountedPair]]
    reverse: bool = False
    right_to_left: bool = False
    shortlists: Callable[[], tuple[Shortlist, Shortlist]] = lambda: (Shortlist(), Shortlist())

    def prepare(self, folder: RunFolder, ranks: Ranks, *, is_resumed: bool) -> Task:
        """See :class:`TrainingRun`."""
        store = self._open_pairs(folder, ranks, is_resumed=is_resumed)
        config, training, pairs = self.config, self.config.training, store.record
        vocabularies = (store.source_vocabulary, store.target_vocabulary)
        with enough_memory(self.device, NETWORK_PROBLEM):
            network = empty_network(config, *map(len, vocabularies)).to_empty(device="cpu").train()
            # On the CPU, so that a seed gives the same start on every device.
            network.initialize(torch.Generator().manual_seed(training.seed))
            network = network.to(self.device)
        num_held_out = held_out_size(training, len(store))
        record = TrainingRecord(
            direction=direction_of(reverse=self.reverse, right_to_left=self.right_to_left),
            data_fingerprint=pairs.fingerprint,
            training_pairs=pairs.pairs - num_held_out,
            validation_pairs=num_held_out,
            duplicates=pairs.duplicates,
            too_long=pairs.too_long,
            source_coverage=pairs.source_coverage,
            target_coverage=pairs.target_coverage,
            source_shortlist_from=pairs.source_shortlist_from,
            target_shortlist_from=pairs.target_shortlist_from,
        )
        unit = "sentences" if config.network.is_feed_forward else "distinct pairs"
        reads = f"reads {pairs.source_coverage:.2%}, " if config.network.reads_source else ""
        description = [
            f"{pairs.lines:,} lines, {pairs.pairs:,} {unit}",
            f"{pairs.duplicates:,} duplicates left out" if pairs.duplicates else "",
            f"{pairs.too_long:,} with more than {pairs.max_length} words left out"
            if pairs.too_long
            else "",
            f"{num_held_out:,} held out",
            f"coverage: {reads}predicts {pairs.target_coverage:.2%}",
        ]
        return Task(
            Checkpoint(network, config, *vocabularies, record),
            list(filter(None, description)),
            lambda report: LikelihoodLoop(network, store, training, folder, report, ranks),
        )

    def _open_pairs(self, folder: RunFolder, ranks: Ranks, *, is_resumed: bool) -> PairStore:
        """Store the pairs, or open stored pairs; the other ranks wait for the first one."""
        if not ranks.is_first:
            ranks.wait()
            return PairStore(folder.pairs)
        # If a state was saved but the pairs are missing, opening them raises an error.
        if is_resumed and (folder.pairs.exists() or folder.state is not None):
            store = PairStore(folder.pairs)
            self._check(store)
        else:
            if is_resumed:
                _logger.info(
                    "%s: the run was stopped before its pairs were stored; reading them again with "
                    "the current --reverse, --right-to-left and shortlists",
                    self.work,
                )
            store = write_pair_store(
                folder.pairs,
                self.read(),
                self.config.vocabulary,
                max_length=self.config.training.max_length,
                reverse=self.reverse,
                right_to_left=self.right_to_left,
                shortlists=self.shortlists(),
                distinct=not self.config.network.is_feed_forward,
            )
        ranks.wait()
        return store

    def _check(self, store: PairStore) -> None:
        """Check that the stored run has the same inputs, options and shortlists as this run."""
        store.check()
        if (store.affiliations is not None) != self.config.network.is_aligned:
            kind = "with" if self.config.network.is_aligned else "without"
            raise ModelError(
                f"{store.folder}: expected pairs {kind} word alignments for this kind of network"
            )
        for name in ("reverse", "right_to_left"):
            was_given = getattr(store.record, name)
            if was_given != getattr(self, name):
                had = "with" if was_given else "without"
                raise ConfigError("--resume", flag(name), f"the run to resume was started {had} it")
        if fingerprint_input(self.inputs) != store.record.fingerprint:
            names = ", ".join(map(shown_path, self.inputs))
            is_table = len(self.inputs) == 1 and self.config.network.reads_source
            content = "table" if is_table else "text"
            raise PhrasescoreError(
                f"{names}: not the {content} that the run in {self.work} was started with; resume "
                f"it with that {content}, or train into another folder"
            )
        sizes = self.config.vocabulary
        for shortlist, size, vocabulary in zip(
            self.shortlists(),
            (sizes.source_size, sizes.target_size),
            (store.source_vocabulary, store.target_vocabulary),
            strict=True,
        ):
            words = vocabulary
            if not shortlist.is_table:
                words, _ = shortlist.build({}, size, sizes.subwords)
            if words != vocabulary:
                raise PhrasescoreError(
                    f"{shortlist.origin}: its words differ from the shortlist that the run in "
                    f"{self.work} was started with; leave it out, or train into another folder"
                )

    def has_made(self, model: Checkpoint, folder: RunFolder) -> bool:
        """See :class:`TrainingRun`."""
        store = PairStore(folder.pairs)
        return (
            model.record.data_fingerprint == store.record.fingerprint
            and model.reverse == store.record.reverse
            and model.right_to_left == store.record.right_to_left
            and model.source_vocabulary == store.source_vocabulary
            and model.target_vocabulary == store.target_vocabulary
        )


# N-best lists


class ExpectedBleu(NamedTuple):
    """The objective of fine-tuning: the expected BLEU of n-best lists."""

    # Weight of the network's feature in the log-linear model.
    weight: float
    # Factor of the regulariser, -log p per predicted word.
    likelihood: float


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


def deviation(scores: KnownScores, values: Tensor, *, weight: float) -> float:
    """Return the standard deviation of the totals within the lists, over all hypotheses."""
    totals = scores.model_scores + weight * values
    sums = totals.new_zeros(scores.num_lists).index_add(0, scores.lists, totals)
    sizes = torch.bincount(scores.lists, minlength=scores.num_lists)
    distances = totals - (sums / sizes)[scores.lists]
    return float(distances.square().mean().sqrt())


class ExpectedBleuLoop(TrainingLoop):
    """Maximise the expected BLEU of n-best lists; see `TrainingLoop`."""

    def __init__(
        self,
        network: PairNetwork,
        store: ListStore,
        config: TrainingConfig,
        folder: RunFolder,
        report: Callable[[TrainingProgress], None],
        objective: ExpectedBleu,
    ) -> None:
        self._objective = objective
        super().__init__(network, store, config, folder, report, Ranks())

    def _begin(self) -> None:
        # All later validations are compared with the start.
        if not self.state.curve:
            self.state.scale = self._choose_scale()
            self._validate()
            self._save()

    def _count(self, batch: ListBatch) -> tuple[int, int]:
        sides = (*batch.pairs, *batch.taught)
        return sum(int(side.lengths.sum()) for side in sides), batch.scores.num_lists

    def _make_gradient(self, batch: ListBatch, count: int) -> Tensor:
        network = self._network
        # Disable dropout, which would drop different units for hypotheses that are compared.
        network.eval()
        with self._autocast:
            values = batch.values(network(batch.pairs))
        loss_sum = -self._expected(batch, values).sum()
        network.train()
        if self._objective.likelihood:
            self._seed_update()
            with self._autocast:
                taught = network(batch.taught).double().sum()
            predicted = int((batch.taught.target.lengths + 1).sum())
            loss_sum = loss_sum - self._objective.likelihood * count * taught / predicted
        return self._add_gradients(loss_sum, count)

    def _expected(self, batch: ListBatch, values: Tensor) -> Tensor:
        weight, scale = self._objective.weight, self.state.scale
        return expected_gains(batch.scores, values, weight=weight, scale=scale)

    def _measure(self) -> float:
        total = sum(float(self._expected(*each).sum()) for each in self._held_out_values())
        expected = total / self.num_held_out
        self._check_finite(expected, self.state.update, "expected BLEU")
        return expected

    def _shown(self, quality: float) -> tuple[float | None, float | None]:
        return None, 100 * quality

    def _reject(self) -> None:
        self._folder.load_best(self.state.best_update, self._network)
        self._optimizer = build_optimizer(self._network, self._config)
        self.state.halvings += 1

    def _held_out_values(self) -> Iterator[tuple[ListBatch, Tensor]]:
        for batch in self._held_out_batches(self._config.batch_size):
            yield batch, batch.values(self._network(batch.pairs))

    def _choose_scale(self) -> float:
        squares = [
            (len(values), deviation(batch.scores, values, weight=self._objective.weight) ** 2)
            for batch, values in self._held_out_values()
        ]
        hypotheses = sum(size for size, _ in squares)
        spread = (sum(size * square for size, square in squares) / hypotheses) ** 0.5
        return _SPREAD / spread if spread else 1.0

    def _learning_rate(self) -> float:
        return math.ldexp(super()._learning_rate(), -self.state.halvings)


@dataclass(frozen=True, kw_only=True)
class ListRun(TrainingRun):
    """A run on n-best lists, which are not stored: a resumed run reads them again.

    :param start: the network to fine-tune, on the CPU.
    :param feature: the name of the network's feature in the log-linear model, to be recorded.
    :param read: opens the inputs and returns the lists.
    """

    joins_ranks: ClassVar = False

    start: Checkpoint
    feature: str
    objective: ExpectedBleu
    read: Callable[[], ListStore]

    def prepare(self, folder: RunFolder, _ranks: Ranks, *, is_resumed: bool) -> Task:  # noqa: ARG002
        """See :class:`TrainingRun`."""
        store, training, objective = self.read(), self.config.training, self.objective
        inputs = {**store.inputs, "likelihood": repr(objective.likelihood)}
        folder.set_inputs(inputs)
        num_held_out = held_out_size(training, len(store))
        if not num_held_out:
            raise PhrasescoreError(
                f"no list would be held out of {len(store)} lists with training.validation_share "
                f"{training.validation_share} and training.validation_pairs "
                f"{training.validation_pairs}: give more lists, or increase these settings"
            )
        tuning = FineTuning(
            objective="xbleu",
            start_fingerprint=self.start.fingerprint,
            lists=len(store) - num_held_out,
            held_out_lists=num_held_out,
            feature=self.feature,
            weight=objective.weight,
            scale=0.0,
            likelihood=objective.likelihood,
        )
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
                f"{self.feature} with the weight {objective.weight:g}",
            ],
            lambda report: ExpectedBleuLoop(network, store, training, folder, report, objective),
        )

    def has_made(self, model: Checkpoint, folder: RunFolder) -> bool:
        """See :class:`TrainingRun`."""
        return model.record.data_fingerprint == _fingerprint(folder.inputs or {})


def _fingerprint(inputs: Mapping[str, str]) -> str:
    return digest_text(repr(sorted(inputs.items())))
