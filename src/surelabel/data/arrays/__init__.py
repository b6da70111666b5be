"""Arrays in memory and in .npy and .npz files."""
