"""What the tests of tuning share."""

from tests.phrasescore.cli.tune.conftest import _few_starts as _few_starts
