"""Configs of runs: settings, recipes and their validation. Imports no torch."""
