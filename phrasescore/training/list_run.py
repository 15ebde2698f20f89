"""A run that trains a network further, for the expected BLEU of n-best lists.

Nothing of the lists is stored in the work folder: a run that is resumed reads them again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from phrasescore.errors import PhrasescoreError
from phrasescore.io.state import check_same_run, digest_text, read_state, write_state
from phrasescore.models.checkpoint import Checkpoint, FineTuning, TrainingRecord
from phrasescore.models.layers import PairNetwork
from phrasescore.training.draw import held_out_size
from phrasescore.training.expected_bleu import ExpectedBleu, ExpectedBleuLoop
from phrasescore.training.list_store import ListStore
from phrasescore.training.ranks import Ranks
from phrasescore.training.run import Report, TrainingRun
from phrasescore.training.run_folder import INPUTS, RunFolder, RunState


class RunInputs(msgspec.Struct):
    """What a run on n-best lists depends on besides its settings."""

    # By name; files have digests.
    inputs: dict[str, str]
    # The digest of all inputs, as in the record of the model.
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class ListRun(TrainingRun[ListStore]):
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

    def open_items(self, folder: RunFolder, _ranks: Ranks, *, is_resumed: bool) -> ListStore:
        """Read the lists, and compare them with those of the run to resume."""
        items = self.read()
        inputs = self._inputs(items)
        path = folder.path / INPUTS
        known = read_state(path, RunInputs) if is_resumed else None
        if known is not None:
            where = f"{folder.path}: the run"
            check_same_run(known.inputs, inputs.inputs, where, "choose another --work-dir")
        elif is_resumed and folder.has_state:
            problem = "the run to resume does not learn from n-best lists"
            raise PhrasescoreError(f"{folder.path}: {problem}; choose another --work-dir")
        write_state(path, inputs)
        share = self.config.training.validation_share
        if not held_out_size(self.config.training, len(items)):
            problem = f"{len(items)} lists, of which validation_share {share} is none"
            cure = "give more lists, or change training.validation_share or validation_pairs"
            raise PhrasescoreError(f"no list is held out of {problem}: {cure}")
        return items

    def _inputs(self, items: ListStore) -> RunInputs:
        inputs = {**items.inputs, "likelihood": repr(self.objective.likelihood)}
        return RunInputs(inputs, digest_text(repr(sorted(inputs.items()))))

    def build_network(self, _items: ListStore) -> PairNetwork:
        """Return the network to train further."""
        assert isinstance(self.start.model, PairNetwork)
        return self.start.model.requires_grad_().train()

    def build_loop(
        self,
        network: PairNetwork,
        items: ListStore,
        folder: RunFolder,
        report: Report,
        _ranks: Ranks,
    ) -> ExpectedBleuLoop:
        """Return the loop for the expected BLEU."""
        training = self.config.training
        return ExpectedBleuLoop(network, items, training, folder, report, self.objective)

    def describe(self, items: ListStore, num_held_out: int) -> list[str]:
        """Return the number of lists, and the network's feature."""
        return [
            f"{len(items):,} lists, {len(items.gains):,} hypotheses",
            f"{num_held_out:,} lists held out",
            f"{self.feature} with the weight {self.objective.weight:g}",
        ]

    def make_record(self, items: ListStore, num_held_out: int, state: RunState) -> TrainingRecord:
        """Return the record of the start, with what the lists are."""
        return replace(
            self.start.record,
            data_fingerprint=self._inputs(items).fingerprint,
            fine_tuning=FineTuning(
                objective="xbleu",
                start_fingerprint=self.start.fingerprint,
                lists=len(items) - num_held_out,
                held_out_lists=num_held_out,
                feature=self.feature,
                weight=self.objective.weight,
                scale=state.scale,
                likelihood=self.objective.likelihood,
            ),
        )

    def make_checkpoint(
        self, network: PairNetwork, _items: ListStore, record: TrainingRecord
    ) -> Checkpoint:
        """Return the start with its new weights."""
        return replace(self.start, model=network, config=self.config, record=record)

    def has_made(self, model: Checkpoint, folder: RunFolder) -> bool:
        """Compare the model's inputs with those of the unfinished run."""
        inputs = read_state(folder.path / INPUTS, RunInputs)
        return inputs is not None and model.record.data_fingerprint == inputs.fingerprint
