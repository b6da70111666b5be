"""Charts as SVG: inside a page and in its colours, or as files."""

import io
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import matplotlib
from matplotlib.figure import Figure

from surelabel.report.palette import LIGHT

Drawing = TypeVar("Drawing", bound=Callable[..., Figure])

# Text stays text, for screen readers, search and the page's font; a fixed salt makes the ids reproducible.
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
    """Decorator: draw in `STYLE`, whatever matplotlib's settings are."""

    @wraps(draw)
    def within(*args: Any, **kwargs: Any) -> Figure:
        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return within  # type: ignore[return-value]


def picture(figure: Figure, form: str, background: str = "none") -> bytes:
    """The bytes of an svg or png file, in the colours of light mode."""
    file = io.BytesIO()
    # A date would make every file differ, and the creator is a link.
    metadata: dict[str, None] = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
    with matplotlib.rc_context(STYLE):
        figure.savefig(file, format=form, dpi=160, metadata=metadata, facecolor=background)
    return file.getvalue()


def inline(figure: Figure, prefix: str) -> str:
    """The figure as an <svg> element in the page's colours; `prefix` makes its ids unique on the page."""
    text = picture(figure, "svg").decode()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|"#|url\(#)', rf"\g<1>{prefix}-", text)
    text = re.sub(r'<svg .*?(viewBox="[^"]*").*?>', r'<svg \1 aria-hidden="true">', text, count=1, flags=re.DOTALL)
    text = text.replace("xlink:href", "href")
    for name, colour in LIGHT.items():
        text = text.replace(colour, f"var(--{name})")
    return text
