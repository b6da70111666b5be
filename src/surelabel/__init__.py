"""surelabel: a classifier from a few labels and many unlabelled samples, with a confidence worth trusting."""

__version__ = "0.1.0"
