"""Benchmarks: speeds as ratios to a baseline that is timed in the same run. `python -m bench [names...]`."""
