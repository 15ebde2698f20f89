"""Tests of the settings that say where and how networks compute."""

from typing import Any

import pytest

from phrasescore.errors import ArgumentError
from phrasescore.settings.compute import Compute


def test_threads_are_the_workers_of_the_engine_here() -> None:
    assert Compute(threads=2).on_workers() == Compute(workers=2)
    assert Compute(workers=2).on_workers() == Compute(workers=2)
    assert Compute().on_workers() == Compute()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"workers": 2},
            "--threads and --workers cannot be combined: with --engine here they are the same",
        ),
        ({"engine": "ray"}, "--threads requires --engine here; use --workers with ray"),
    ],
)
def test_threads_beside_workers_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Compute(threads=2, **settings).on_workers()
    assert str(caught.value) == message


def test_auto_is_a_gpu_here_alone() -> None:
    assert Compute().on_workers().device == "auto"
    assert Compute(engine="processes").on_workers().device == "cpu"
    assert Compute(engine="ray").on_workers().device == "cpu"
    assert Compute(engine="ray", device="cuda").on_workers().device == "cuda"
    with pytest.raises(ArgumentError, match="forked processes cannot use a GPU"):
        Compute(engine="processes", device="cuda:0").on_workers()
    with pytest.raises(ArgumentError, match=r"^--device cuda:1: Ray gives each worker a GPU; use"):
        Compute(engine="ray", device="cuda:1").on_workers()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "tpu"}, "--device: expected auto, cpu, cuda or cuda:N, got 'tpu'"),
        ({"precision": "half"}, "--precision: expected one of float32, tf32, bfloat16, int8, got"),
        ({"threads": 0}, "--threads: expected at least 1, got 0"),
        ({"threads": 1.5}, "--threads: expected a whole number, got 1.5"),
        ({"engine": "there"}, "--engine: expected one of here, processes, ray, got 'there'"),
    ],
)
def test_values_out_of_range_are_refused_when_the_object_is_made(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        Compute(**settings)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:0", "cuda:12"])
def test_devices_have_names_as_in_torch(device: str) -> None:
    assert Compute(device=device).device == device


def test_a_setting_without_effect_is_refused() -> None:
    Compute(device="cpu", threads=2).check_only("device", "threads")
    with pytest.raises(ArgumentError, match=r"^--precision: has no effect here$"):
        Compute(precision="int8").check_only("device", "threads")
