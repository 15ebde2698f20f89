"""Settings for computing, engine, device, threads and precision, and for a server."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta

from phrasescore.arguments import AtLeastOne, PrecisionName
from phrasescore.errors import ArgumentError
from phrasescore.settings.declaration import Settings, option, optional

EngineName = Literal["here", "processes", "ray"]

_DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]+)?")


@dataclass(frozen=True, kw_only=True)
class Compute(Settings, heading="Devices and speed"):
    """Where and how networks compute; only precision and device change the values."""

    precision: PrecisionName = option(
        "float32",
        "Precision of the matrix products. A lower precision is faster on processors with "
        "instructions for it (int8: CPUs with VNNI or AMX). docs/performance.md lists the "
        "errors.",
    )
    # `phrasescore.devices.choose_device` checks whether the device exists.
    device: str = option(
        "auto",
        "Device for the networks; auto uses a CUDA device if one is available.",
        metavar="auto|cpu|cuda[:N]",
    )
    # Only for the engine ``here``, where it is another name for ``workers``.
    threads: AtLeastOne | None = optional(
        "Number of CPU threads for the networks.", shown="all cores"
    )
    engine: EngineName = option(
        "here", "Run the work in threads (here), in processes, or on Ray. The result is the same."
    )
    workers: AtLeastOne | None = optional(
        "Number of workers for the engine; each runs one thread.", shown="one per core or GPU"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if _DEVICE.fullmatch(self.device) is None:
            problem = f"--device: expected auto, cpu, cuda or cuda:N, got {self.device!r}"
            raise ArgumentError(problem)

    def on_workers(self) -> "Compute":
        """Return the settings for the engine's workers.

        The engine ``here`` uses its threads as workers. Other engines use the CPU for ``auto``.
        """
        if self.threads is None:
            return replace(self, device=self._device_on_workers())
        if self.engine != "here":
            problem = f"--threads requires --engine here; use --workers with {self.engine}"
            raise ArgumentError(problem)
        if self.workers is not None:
            raise ArgumentError(
                "--threads and --workers cannot be combined: with --engine here they are the same"
            )
        return replace(self, threads=None, workers=self.threads)

    def _device_on_workers(self) -> str:
        if self.engine == "here":
            return self.device
        if self.engine == "ray" and self.device.startswith("cuda:"):
            raise ArgumentError(f"--device {self.device}: Ray gives each worker a GPU; use cuda")
        if self.engine == "processes" and self.device.startswith("cuda"):
            problem = "--device cuda: forked processes cannot use a GPU; use --engine here or ray"
            raise ArgumentError(problem)
        return "cpu" if self.device == "auto" else self.device


@dataclass(frozen=True, kw_only=True)
class Serving(Settings, heading="Server"):
    """Where a server listens, and the limits that users may change."""

    host: str = option(
        "127.0.0.1",
        "Address to listen on; 0.0.0.0 for all of this machine's addresses. There are no passwords "
        "and no encryption: a proxy must add them.",
        metavar="ADDRESS",
    )
    port: Annotated[int, Meta(ge=0, le=65535)] = option(
        8080, "Port to listen on; 0 for any free port."
    )
    max_words: Annotated[int, Meta(ge=1, le=4000)] = option(
        250, "Longest sentence that is translated, in words (or characters)."
    )
    max_wait: Annotated[float, Meta(gt=0, le=86_400)] = option(
        60.0, "Longest time that a request may take, in seconds."
    )
    allow_origin: Sequence[str] = option(
        (),
        "Let pages of this origin, such as http://localhost:3000, use the server (CORS); * for the "
        "pages of all origins. Repeatable.",
        metavar="ORIGIN",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for origin in self.allow_origin:
            # As browsers send it: a path, or capitals, would never match.
            if re.fullmatch(r"\*|[a-z][a-z0-9+.-]*://[^/?#\sA-Z]+", origin) is None:
                problem = "expected an origin, such as http://localhost:3000, or *"
                raise ArgumentError(f"--allow-origin: {problem}; got {origin!r}")
