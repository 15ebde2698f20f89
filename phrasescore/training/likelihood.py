"""Training for the likelihood of pairs: the loss is -log p, and validation measures perplexity."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from phrasescore.arguments import flag
from phrasescore.errors import ConfigError, PhrasescoreError, shown_path
from phrasescore.models.batches import PairBatch
from phrasescore.models.checkpoint import Checkpoint, TrainingRecord, direction_of, empty_network
from phrasescore.models.softmax import WordSampler
from phrasescore.training.draw import held_out_size, stream_key
from phrasescore.training.loop import TrainingLoop
from phrasescore.training.pair_store_writer import CountedPair, fingerprint_input, write_pair_store
from phrasescore.training.ranks import Ranks
from phrasescore.training.run import NETWORK_PROBLEM, Task, TrainingRun, enough_memory
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.stores import PairStore
from phrasescore.training.subword_dropout import SplitStore
from phrasescore.vocabulary import Vocabulary

# Number of pairs of a batch in validation.
_VALIDATION_BATCH = 256


class LikelihoodLoop(TrainingLoop):
    """Maximise the likelihood of the targets."""

    _store: PairStore

    @cached_property
    def _sampler(self) -> WordSampler | None:
        config, size = self._config, len(self._store.target_vocabulary)
        if config.softmax == "full" or size <= config.sampled_words:
            return None
        counts = self._store.target_counts()
        counts[Vocabulary.END] = len(self._store)  # the stored targets have no </s>
        return WordSampler(counts, config.sampled_words)

    def _count(self, batch: PairBatch) -> tuple[int, int]:
        target_words = int(batch.target.lengths.sum())
        words = int(batch.source.lengths.sum()) + target_words
        return words, target_words + len(batch.target.lengths)

    def _make_gradient(self, batch: PairBatch, count: int) -> Tensor:
        if not len(batch.target.lengths):  # a last batch of fewer pairs than there are ranks
            return torch.zeros(())
        if self._network.config.dropout > 0:
            self._seed_update()
        # All ranks have the same sample.
        key = stream_key(self._config.seed, self.state.update)
        self._network.sample = self._sampler.draw(key, self._device) if self._sampler else None
        self._network.label_smoothing = self._config.label_smoothing
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


def _shown_share(share: float) -> str:
    """Return a share of words; a few missing words in millions are not rounded to 100 %."""
    return "all words" if share == 1 else f"{min(share, 0.9999):.2%} of the words"


@dataclass(frozen=True, kw_only=True)
class PairRun(TrainingRun):
    """A run on pairs. For a language model, sentences are targets without a source."""

    read: Callable[[], Iterable[CountedPair]]
    reverse: bool = False
    right_to_left: bool = False

    def prepare(self, folder: RunFolder, ranks: Ranks, *, is_resumed: bool) -> Task:
        store = self._open_pairs(folder, ranks, is_resumed=is_resumed)
        config, training, pairs = self.config, self.config.training, store.record
        vocabularies = (store.source_vocabulary, store.target_vocabulary)
        with enough_memory(self.device, NETWORK_PROBLEM):
            network = empty_network(config, *map(len, vocabularies)).train()
            # `to_empty` would import sympy, which takes half a second.
            weights = {name: torch.empty(each.shape) for name, each in network.state_dict().items()}
            network.load_state_dict(weights, assign=True)
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
        )
        unit = "sentences" if config.network.is_feed_forward else "distinct pairs"
        covered = {"predicted": pairs.target_coverage}
        if config.network.reads_source:
            covered = {"read": pairs.source_coverage, **covered}
        shares = [f"{_shown_share(share)} {use}" for use, share in covered.items()]
        known = "all words" if min(covered.values()) == 1 else " and ".join(shares)
        description = [
            f"{pairs.lines:,} lines, {pairs.pairs:,} {unit}",
            f"{pairs.duplicates:,} duplicates left out" if pairs.duplicates else "",
            f"{pairs.too_long:,} with more than {pairs.max_length} words left out"
            if pairs.too_long
            else "",
            f"{num_held_out:,} held out",
            f"the vocabulary covers {known}",
        ]
        return Task(
            Checkpoint(network, config, *vocabularies, record),
            list(filter(None, description)),
            lambda report: LikelihoodLoop(network, store, training, folder, report, ranks),
        )

    def _open_pairs(self, folder: RunFolder, ranks: Ranks, *, is_resumed: bool) -> PairStore:
        training = self.config.training

        def open_store() -> PairStore:
            if training.subword_dropout > 0:
                return SplitStore(folder.pairs, training)
            return PairStore(folder.pairs)

        if not ranks.is_first:
            ranks.wait()
            return open_store()
        # If a state was saved but the pairs are missing, opening them raises an error.
        if is_resumed and (folder.pairs.exists() or folder.state is not None):
            store = open_store()
            self._check(store)
        else:
            write_pair_store(
                folder.pairs,
                self.read(),
                self.config.vocabulary,
                max_length=training.max_length,
                reverse=self.reverse,
                right_to_left=self.right_to_left,
                distinct=not self.config.network.is_feed_forward,
                keep_words=training.subword_dropout > 0,
            )
            store = open_store()
        ranks.wait()
        return store

    def _check(self, store: PairStore) -> None:
        store.check()
        for name in ("reverse", "right_to_left"):
            was_given = getattr(store.record, name)
            if was_given != getattr(self, name):
                had = "with" if was_given else "without"
                raise ConfigError("--resume", flag(name), f"the run to resume was started {had} it")
        is_parallel = self.config.network.reads_source
        if fingerprint_input(self.inputs, is_parallel=is_parallel) != store.record.fingerprint:
            names = ", ".join(map(shown_path, self.inputs))
            is_table = len(self.inputs) == 1 and is_parallel
            content = "table" if is_table else "text"
            raise PhrasescoreError(
                f"{names}: not the {content} that the run in {self.work} was started with; resume "
                f"it with that {content}, or train into another folder"
            )

    def has_made(self, model: Checkpoint, folder: RunFolder) -> bool:
        store = PairStore(folder.pairs)
        direction = direction_of(
            reverse=store.record.reverse, right_to_left=store.record.right_to_left
        )
        made = model.record.data_fingerprint, model.record.direction
        return made == (store.record.fingerprint, direction)
