"""Studies: the paper's tables and figures, each a list of runs that any number of workers share."""
