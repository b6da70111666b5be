"""What each method does, in one line, and the paper that it comes from. Imports no torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """`where` is its number on arXiv, or where it appeared."""

    authors: str
    year: int
    where: str

    def __str__(self) -> str:
        return f"{self.authors}, {self.year}, {self.where}"


LOH = Paper("Loh et al.", 2022, "arXiv 2210.04783")
BAYESIAN = "bam-"  # before a method's name
WHAT: dict[str, tuple[str, Paper | None]] = {
    "sure": ("a cross-fitted ensemble, calibrated by labels that it has not seen", None),
    "supervised": ("the labels only", None),
    "pseudo-label": ("confident predictions are labels, both views weak", Paper("Lee", 2013, "ICML workshop")),
    "pi-model": ("predictions for two views are to agree", Paper("Laine and Aila", 2017, "arXiv 1610.02242")),
    "mean-teacher": (
        "the same, with an average of the network as the teacher",
        Paper("Tarvainen and Valpola", 2017, "arXiv 1703.01780"),
    ),
    "uda": ("confident predictions, sharpened, learnt on strong views", Paper("Xie et al.", 2020, "arXiv 1904.12848")),
    "fixmatch": ("confident predictions as labels of strong views", Paper("Sohn et al.", 2020, "arXiv 2001.07685")),
    "remixmatch-align": (
        "all predictions, aligned with the labels' shares: a part of ReMixMatch",
        Paper("Berthelot et al.", 2020, "arXiv 1911.09785"),
    ),
    "flexmatch": (
        "a lower threshold for classes that are learnt slowly",
        Paper("Zhang et al.", 2021, "arXiv 2110.08263"),
    ),
    "dash": ("accepts below a loss that falls during training", Paper("Xu et al.", 2021, "arXiv 2109.00650")),
    "adamatch": (
        "aligned with, and accepted relative to, predictions for the labelled",
        Paper("Berthelot et al.", 2022, "arXiv 2106.04732"),
    ),
    "debiaspl": (
        "what is predicted too often is discounted, and must win by a margin",
        Paper("Wang et al.", 2022, "arXiv 2201.01490"),
    ),
    "freematch": (
        "the threshold follows the network's confidence; a fairness term",
        Paper("Wang et al.", 2023, "arXiv 2205.07246"),
    ),
    "softmatch": (
        "none is rejected, less confident predictions count less",
        Paper("Chen et al.", 2023, "arXiv 2301.10921"),
    ),
    "finessl-margin": (
        "classes that are learnt slowly must win by a margin: a part of FineSSL",
        Paper("Gan and Wei", 2024, "arXiv 2405.11756"),
    ),
    "bam-uda-no-sigma": ("bam-uda, but selected by confidence: the paper's ablation", LOH),
    "paws": ("views of an image find the same labelled neighbours", Paper("Assran et al.", 2021, "arXiv 2104.13963")),
    "bam-paws": ("paws with a Bayesian last layer", LOH),
}
SELECTED_BY_STD = ("pseudo-label", "uda", "fixmatch")  # by their bam- method


def described(method: str) -> tuple[str, Paper | None]:
    """What a method does, and its paper; of one with a Bayesian head, that of this idea."""
    if method in WHAT:
        return WHAT[method]
    base = method.removeprefix(BAYESIAN)
    rule = "selected by the std of averaged predictions" if base in SELECTED_BY_STD else "with averaged predictions"
    return f"{base} {rule} of a Bayesian head", LOH
