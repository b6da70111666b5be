"""How many CPU cores a process may use; a cluster or a container may not give it all."""

import os


def available_cores() -> int:
    """The number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores_per_process(processes: int) -> int:
    """The number of cores for each of so many processes on this machine."""
    # With fewer cores than its job has here, srun has already bound this process to its own.
    if available_cores() < int(os.environ.get("SLURM_CPUS_ON_NODE", "0")):
        return available_cores()
    return max(1, available_cores() // processes)
