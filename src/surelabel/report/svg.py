"""Charts as SVG: part of a page and in its colours, or a file of their own."""

import io
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import matplotlib
from matplotlib.figure import Figure

from surelabel.report.palette import LIGHT

Drawing = TypeVar("Drawing", bound=Callable[..., Figure])

# Text stays text, to be read aloud, searched and set in the page's own font; the ids do not change from time to time.
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "surelabel",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": LIGHT["ink"],
    "axes.edgecolor": LIGHT["rule"],
    "axes.labelcolor": LIGHT["quiet"],
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LIGHT["rule"],
    "grid.linewidth": 0.6,
    "xtick.color": LIGHT["rule"],
    "ytick.color": LIGHT["rule"],
    "xtick.labelcolor": LIGHT["quiet"],
    "ytick.labelcolor": LIGHT["quiet"],
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "hatch.linewidth": 0.8,
    "text.parse_math": False,
}


def styled(draw: Drawing) -> Drawing:
    """Draws in `STYLE`, whatever matplotlib is set to elsewhere."""

    @wraps(draw)
    def within(*args: Any, **kwargs: Any) -> Figure:
        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return within  # type: ignore[return-value]


def picture(figure: Figure, form: str, background: str = "none") -> bytes:
    """The figure as a file, svg or png, in the colours of a light page."""
    file = io.BytesIO()
    # The date would make each file another one, and the creator is a link.
    metadata: dict[str, None] = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
    with matplotlib.rc_context(STYLE):
        figure.savefig(file, format=form, dpi=160, metadata=metadata, facecolor=background)
    return file.getvalue()


def inline(figure: Figure, prefix: str) -> str:
    """The figure as an <svg> element for a page: as wide as its place, in the page's colours, its ids after `prefix`.

    Several charts share a page, so that their ids must differ, and none may bring a style sheet for the whole of it.
    """
    text = picture(figure, "svg").decode()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|"#|url\(#)', rf"\g<1>{prefix}-", text)
    text = re.sub(r'<svg .*?(viewBox="[^"]*").*?>', r'<svg \1 aria-hidden="true">', text, count=1, flags=re.DOTALL)
    text = text.replace("xlink:href", "href")
    for name, colour in LIGHT.items():
        text = text.replace(colour, f"var(--{name})")
    return text
