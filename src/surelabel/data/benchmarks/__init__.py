"""The published data sets: CIFAR, MNIST, photonic crystals."""
