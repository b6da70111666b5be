"""What knows nothing of surelabel: errors, files, cores, devices, processes, random numbers, signals."""
