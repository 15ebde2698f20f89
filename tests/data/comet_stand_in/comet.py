"""COMET without networks: the functions that programs call, as in unbabel-comet 2.2.7.

They take the arguments of ``comet/models/__init__.py`` and ``comet/models/base.py`` that the
how-to page uses, and no others.
"""

import os
from typing import Any


class Prediction(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        return self[name]


class Model:
    def __init__(self, needs_reference: bool) -> None:
        self.known = "ref" if needs_reference else "src"

    def predict(
        self,
        samples: list[dict[str, str]],
        batch_size: int = 16,
        gpus: int = 1,
        progress_bar: bool = True,
    ) -> Prediction:
        """Score the share of words that are right: of the reference, or of the source."""
        assert (batch_size, gpus, progress_bar) == (32, 0, False)
        scores = []
        for sample in samples:
            found, known = (set(sample[key].split()) for key in ("mt", self.known))
            scores.append(len(found & known) / max(len(found | known), 1))
        # As there, no samples are an error.
        return Prediction(scores=scores, system_score=sum(scores) / len(scores))


def download_model(model: str) -> str:
    return os.path.join(model, "checkpoints", "model.ckpt")


def load_from_checkpoint(checkpoint_path: str) -> Model:
    return Model("kiwi" not in checkpoint_path)
