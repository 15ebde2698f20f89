"""What the packages have logged in a test."""

import logging

import pytest


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings so far, in order."""
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
