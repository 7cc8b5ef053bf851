"""What the machine is."""

import os
import platform
import re
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")


def usable_cores() -> list[int]:
    """One processor of each core that this process may run on."""
    cores: dict[str, int] = {}
    for processor in sorted(os.sched_getaffinity(0)):
        siblings = CPUS / f"cpu{processor}/topology/thread_siblings_list"
        core = siblings.read_text(encoding="ascii") if siblings.exists() else str(processor)
        cores.setdefault(core, processor)
    return list(cores.values())


def processor_name() -> str:
    names = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return names.group(1) if names else platform.machine()


def bytes_that_no_cache_holds() -> int:
    """Several times the largest cache; where the system does not tell its size, of one as processors have it."""
    sizes = [size.read_text(encoding="ascii").strip() for size in CPUS.glob("cpu0/cache/index*/size")]
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return max([256 << 20] + [4 * int(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units])
