"""surelabel: a classifier from a few labels and many unlabelled samples, with a confidence worth trusting."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surelabel.utils.places import settle

if TYPE_CHECKING:
    from surelabel.config.recipes import recipe as recipe
    from surelabel.estimator.classifier import SureLabelClassifier as SureLabelClassifier
    from surelabel.inference.trained_run import TrainedRun as TrainedRun
    from surelabel.inference.trained_run import fit as fit
    from surelabel.inference.trained_run import load as load

settle()  # before torch and onnxruntime are imported

__version__ = "0.1.0"

_PUBLIC = {
    "SureLabelClassifier": "surelabel.estimator.classifier",
    "TrainedRun": "surelabel.inference.trained_run",
    "fit": "surelabel.inference.trained_run",
    "load": "surelabel.inference.trained_run",
    "recipe": "surelabel.config.recipes",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: `import surelabel` does not wait for torch."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'surelabel' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
