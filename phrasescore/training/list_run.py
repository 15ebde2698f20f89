"""A run that trains a network further, for the expected BLEU of n-best lists.

Nothing of the lists is stored in the work folder: a run that is resumed reads them again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from phrasescore.errors import PhrasescoreError
from phrasescore.io.digests import digest_text
from phrasescore.models.checkpoint import Checkpoint, FineTuning
from phrasescore.models.layers import PairNetwork
from phrasescore.training.draw import held_out_size
from phrasescore.training.expected_bleu import ExpectedBleu, ExpectedBleuLoop
from phrasescore.training.list_store import ListStore
from phrasescore.training.ranks import Ranks
from phrasescore.training.run import Task, TrainingRun
from phrasescore.training.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class ListRun(TrainingRun):
    """A run on n-best lists.

    :param start: the network to train further, on the CPU.
    :param feature: the name of the network's feature in the log-linear model, for the record.
    :param read: opens the inputs and returns the lists; called once.
    """

    joins_ranks: ClassVar = False

    start: Checkpoint
    feature: str
    objective: ExpectedBleu
    read: Callable[[], ListStore]

    def prepare(self, folder: RunFolder, _ranks: Ranks, *, is_resumed: bool) -> Task:  # noqa: ARG002
        """Read the lists, and compare them with those of the run to resume."""
        store, training, objective = self.read(), self.config.training, self.objective
        inputs = {**store.inputs, "likelihood": repr(objective.likelihood)}
        folder.set_inputs(inputs)
        num_held_out = held_out_size(training, len(store))
        if not num_held_out:
            share = training.validation_share
            problem = f"{len(store)} lists, of which validation_share {share} is none"
            cure = "give more lists, or change training.validation_share or validation_pairs"
            raise PhrasescoreError(f"no list is held out of {problem}: {cure}")
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
        """Compare the model's inputs with those of the unfinished run."""
        return model.record.data_fingerprint == _fingerprint(folder.inputs or {})


def _fingerprint(inputs: Mapping[str, str]) -> str:
    return digest_text(repr(sorted(inputs.items())))
