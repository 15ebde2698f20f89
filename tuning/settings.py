"""The settings of tuning: one class for all methods, so that a run is described in one place."""

from dataclasses import dataclass

from tuning.pool import FeatureLabel


@dataclass(frozen=True)
class TuneSettings:
    """What a method of tuning may be told. Each field says whose it is."""

    # All methods: features whose weights stay as they are given.
    fixed: tuple[FeatureLabel, ...] = ()
    # All methods: threads; at least 1. They change speed, never a bit of the result.
    threads: int = 1
    # mert: random starts besides the weights given; 0 or more (Moses: mert -n).
    starts: int = 20
    # mert: random directions in each round of searches, besides the axes and the gradient.
    directions: int = 0
    # mert: rounds of a start, an end to what would not converge; at least 1.
    rounds: int = 100

    def __post_init__(self) -> None:
        for name, least in (("threads", 1), ("starts", 0), ("directions", 0), ("rounds", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}")
