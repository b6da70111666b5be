"""Helpers: errors, files, cores, devices, processes, random numbers, signals."""
