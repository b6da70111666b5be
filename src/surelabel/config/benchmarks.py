"""Named data sets, and benchmarks on them."""

# The paper's benchmarks, and Fashion-MNIST, which everybody can get: name -> (data, labels).
BENCHMARKS: dict[str, tuple[str, int | str]] = {
    **{f"cifar10-{labels}": ("cifar10", labels) for labels in (40, 250, 2500, 4000)},
    **{f"cifar100-{labels}": ("cifar100", labels) for labels in (400, 4000, 10000)},
    **{f"{data}-lt-{alpha}": (f"{data}-lt{alpha}", "10%") for data in ("cifar10", "cifar100") for alpha in (10, 100)},
    "phc-10": ("phc", "10%"),
    "phc-1": ("phc", "1%"),
    **{f"fashion-mnist-{labels}": ("fashion-mnist", labels) for labels in (40, 250, 400)},
    "imagenet-10": ("imagenet", "10%"),
}

NAMED_DATA = (*dict.fromkeys(data for data, _ in BENCHMARKS.values()), "mnist")
