"""How much memory a process may use; a cluster or a container may not give it all."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """The bytes of memory that this machine has for this process; None where that cannot be told."""
    return min(_limits(), default=None)


def _limits() -> Iterator[int]:
    with suppress(AttributeError, ValueError, OSError):  # not on Windows
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            yield limit
    with suppress(OSError):
        found = re.search(r"^0::/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
        own = CGROUPS / (found[1] if found else "")
        for group in (own, *own.parents):
            with suppress(OSError, ValueError):  # no limit is the word max
                yield int((group / "memory.max").read_text())
