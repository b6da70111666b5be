"""surelabel: a classifier from a few labels and many unlabelled samples, with a confidence worth trusting."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surelabel.estimator.classifier import SureLabelClassifier as SureLabelClassifier

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The estimator when it is asked for: `import surelabel` waits for neither torch nor scikit-learn."""
    if name != "SureLabelClassifier":
        raise AttributeError(f"module 'surelabel' has no attribute {name!r}")
    try:
        from surelabel.estimator.classifier import SureLabelClassifier
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        from surelabel.utils.errors import UserError

        raise UserError("for SureLabelClassifier, run: pip install 'surelabel[estimator]'") from error
    return SureLabelClassifier
