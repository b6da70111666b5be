"""Use a trained run: predict, evaluate, calibrate, suggest, export."""
