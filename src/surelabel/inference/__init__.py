"""What is done with a trained run."""
