"""What is known about the confidence of a run, in sentences: for the terminal and for the page."""

from collections.abc import Sequence

from surelabel.equations import ece_of_bins
from surelabel.inference.learners import Joined
from surelabel.inference.trust import Accepted, LeftOut, Trust, more_labels
from surelabel.utils.words import some


def describe(found: Trust, precision: float, names: Sequence[str | int], classes: Sequence[str]) -> list[str]:
    """What is known, in sentences; `names` are those of the labelled samples that were left out.

    Unless the labels seem to name all kinds of things in the pool, nothing is promised for it.
    """
    known, wanted = found.known, found.accept(precision)
    low, high = known.interval
    gap, half = known.gap
    bound = f" ({at_least(found, wanted)})" if wanted.count and found.all_named else ""
    sentences = [
        f"Right for about {known.accuracy:.0%} of samples like the labelled ones (95% interval {low:.0%} to "
        f"{high:.0%}), by {len(known.labels)} labels, each predicted by networks that had not seen it",
        f"For these it says {known.accuracy + gap:.0%}: confidence minus accuracy is {100 * gap:+.0f} points (95% "
        f"interval {100 * (gap - half):+.0f} to {100 * (gap + half):+.0f})",
        answer(found, precision) + bound,
    ]
    if unjudged := known.unjudged(classes):
        sentences.insert(2, not_counted(unjudged))
    if known.bins is not None:
        sentences.append(f"Calibration error (ECE) of these labels {ece_of_bins(known.bins):.3f}")
    if found.joined is not None:
        sentences += compared(known, found.joined)
    doubtful = known.doubtful()
    if len(doubtful):
        listed = [
            f"{names[place]} ({classes[known.labels[place]]}, or {classes[known.probs[place].argmax()]}?)"
            for place in doubtful
        ]
        sentences.append(f"Labels that look wrong: {some(listed)}")
    return sentences


def not_counted(classes: Sequence[str]) -> str:
    """What the accuracy leaves out: classes without a label that could be left out."""
    kind = "class" if len(classes) == 1 else "classes"
    return (
        f"That is without the {kind} {some(classes)}, of which no label could be left out, as there is at most one "
        "(near-duplicates count as one, suggested ones not at all): of all samples, fewer may be right"
    )


def answer(found: Trust, precision: float) -> str:
    """How many samples of the pool can be trusted, and at what error."""
    wanted, pool = found.accept(precision), len(found.confidence)
    if not pool:
        return "Every sample has a label, so there is none to accept"
    if not wanted.count:
        return (
            f"No unlabelled sample can be accepted if {precision:.0%} are to be right: label more (the most confident "
            f"is right with probability {found.confidence.max():.2f})"
        )
    return (
        f"Of {pool:,} unlabelled samples, accept the {wanted.count:,} of confidence {wanted.threshold:.2f} or more: "
        f"about {wanted.precision:.0%} of them "
        + ("should be right" if found.all_named else "would be right if all were of the named classes")
    )


def at_least(found: Trust, wanted: Accepted) -> str:
    """The lower bound of the accepted, and what it takes to come near what is expected."""
    words = (
        f"at least {wanted.least:.0%} with 95% certainty, by {wanted.labels} labels"
        if wanted.labels
        else "none of the labels is among samples as confident, so no share is certain"
    )
    more = more_labels(found, wanted)
    if more:
        words += f"; some {more:,} more labels of samples drawn at random would bring that within 5 points"
    return words


def compared(known: LeftOut, joined: Joined) -> list[str]:
    """How likely the left-out labels are, beside simpler answers, and what the answer is made of."""
    pool, labels = joined.powers
    return [
        f"Log loss of these labels {known.nll:.2f}; {joined.linear_nll:.2f} by logistic regression on the labels "
        f"alone, {joined.shares_nll:.2f} by the class shares alone (lower is better)",
        f"Joined: {pool / (pool + labels):.0%} what the pool has taught, {labels / (pool + labels):.0%} the labels "
        f"alone; temperature {1 / (pool + labels):.2f} (above 1 it lowers the confidence)",
    ]
