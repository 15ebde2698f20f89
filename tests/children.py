"""Programs that tests start: they end with the tests, even where these are killed."""

import os
import sys
from collections.abc import Sequence

# 1 is PR_SET_PDEATHSIG, 9 is SIGKILL; what is executed keeps it.
_LEASH = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""


def leashed(command: Sequence[str]) -> list[str]:
    return [sys.executable, "-S", "-c", _LEASH, str(os.getpid()), *command]
