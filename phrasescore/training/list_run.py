"""A run that trains a network further, for the expected BLEU of n-best lists.

Nothing of the lists is stored in the work folder: a run that is resumed reads them again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from phrasescore.errors import PhrasescoreError
from phrasescore.io.state import check_same_run, digest_text, read_state, write_state
from phrasescore.models.checkpoint import Checkpoint, FineTuning
from phrasescore.models.layers import PairNetwork
from phrasescore.training.draw import held_out_size
from phrasescore.training.expected_bleu import ExpectedBleu, ExpectedBleuLoop
from phrasescore.training.list_store import ListStore
from phrasescore.training.ranks import Ranks
from phrasescore.training.run import Task, TrainingRun
from phrasescore.training.run_folder import INPUTS, RunFolder


class RunInputs(msgspec.Struct):
    """What a run on n-best lists depends on besides its settings."""

    # By name; files have digests.
    inputs: dict[str, str]
    # The digest of all inputs, as in the record of the model.
    fingerprint: str


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

    def prepare(self, folder: RunFolder, _ranks: Ranks, *, is_resumed: bool) -> Task:
        """Read the lists, and compare them with those of the run to resume."""
        store, training, objective = self.read(), self.config.training, self.objective
        inputs = {**store.inputs, "likelihood": repr(objective.likelihood)}
        fingerprint = digest_text(repr(sorted(inputs.items())))
        path = folder.path / INPUTS
        known = read_state(path, RunInputs) if is_resumed else None
        if known is not None:
            where = f"{folder.path}: the run"
            check_same_run(known.inputs, inputs, where, "choose another --work-dir")
        elif is_resumed and folder.has_state:
            problem = "the run to resume does not learn from n-best lists"
            raise PhrasescoreError(f"{folder.path}: {problem}; choose another --work-dir")
        write_state(path, RunInputs(inputs, fingerprint))
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
        record = replace(self.start.record, data_fingerprint=fingerprint, fine_tuning=tuning)
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
        inputs = read_state(folder.path / INPUTS, RunInputs)
        return inputs is not None and model.record.data_fingerprint == inputs.fingerprint
