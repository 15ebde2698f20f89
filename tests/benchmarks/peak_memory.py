"""Run a command and print, as the last line of stdout, its peak memory in bytes and its seconds.

Seconds are those of the wall, and with "cpu" those of the processor.

A process of its own, and a small one: Linux counts the memory of the process that starts another
one as the first peak of that other one.
"""

import json
import resource
import subprocess
import sys
import time


def main() -> None:
    start = time.perf_counter()
    status = subprocess.run(sys.argv[1:], check=False).returncode
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = used.ru_maxrss
    cpu = used.ru_utime + used.ru_stime
    # Kilobytes, but on macOS.
    num_bytes = peak if sys.platform == "darwin" else peak * 1024
    print(json.dumps({"bytes": num_bytes, "seconds": seconds, "cpu": cpu}))
    sys.exit(status)


if __name__ == "__main__":
    main()
