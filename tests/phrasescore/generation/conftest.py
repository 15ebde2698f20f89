"""The ways in which words are chosen from distributions."""

import pytest

from phrasescore.kernels import precision


@pytest.fixture(params=["compiled", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Choose in the way of each kind of device."""
    if request.param == "torch":
        monkeypatch.setattr(precision, "FUSED_DEVICES", ())
    return str(request.param)
