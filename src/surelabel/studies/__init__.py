"""Studies: the paper's tables and figures, each a list of runs for any number of workers."""
