"""Settings of a server: where it listens, and its limits."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from phrasescore.errors import ArgumentError
from phrasescore.settings.declaration import Settings, option


@dataclass(frozen=True, kw_only=True)
class Serving(Settings, heading="Server"):
    """Where a server listens, and the limits that users may change."""

    host: str = option(
        "127.0.0.1",
        "Address to listen on; 0.0.0.0 for all of this machine's addresses. There are no passwords "
        "and no encryption: a proxy must add them.",
        metavar="ADDRESS",
    )
    port: int = option(8080, "Port to listen on; 0 for any free port.", ge=0, le=65535)
    max_words: int = option(
        250, "Longest sentence that is translated, in words (or characters).", ge=1, le=4000
    )
    max_wait: float = option(
        60.0, "Longest time that a request may take, in seconds.", gt=0, le=86_400
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
