"""How many cores there are to use: a cluster or a container may give a process some of the machine's only."""

import os


def available_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores_per_process(processes: int) -> int:
    """The cores for each of so many processes on this machine."""
    # Of fewer than the job has here, srun has bound this process to some: they are its own, and nobody's share.
    if available_cores() < int(os.environ.get("SLURM_CPUS_ON_NODE", "0")):
        return available_cores()
    return max(1, available_cores() // processes)
