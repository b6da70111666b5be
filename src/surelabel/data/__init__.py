"""Reading data, choosing labels, and making batches of augmented views."""
