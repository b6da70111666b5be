"""Published data sets: CIFAR, MNIST, photonic crystals."""
