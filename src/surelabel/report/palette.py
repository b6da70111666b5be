"""The colours of the page and its charts, in light and in dark mode.

Lines and bars have Okabe and Ito's colours, which suit all kinds of colour vision, made a little darker or lighter for
contrast.
"""

COLOURS: dict[str, tuple[str, str]] = {
    "page": ("#ffffff", "#14181d"),
    "card": ("#f5f7f9", "#1c2229"),
    "ink": ("#1b2128", "#e9ecef"),
    "quiet": ("#56606b", "#a7b1bb"),
    "rule": ("#d5dbe1", "#39424c"),
    "accent": ("#0067a3", "#6cb8ee"),
    "s1": ("#0072b2", "#56b4e9"),
    "s2": ("#bd4f00", "#f08a3c"),
    "s3": ("#00805d", "#2fc49a"),
    "s4": ("#b0528a", "#dd93bb"),
    "s5": ("#8a6a00", "#e0b43a"),
    "s6": ("#5a4fa0", "#aaa0ee"),
}
LIGHT = {name: light for name, (light, _) in COLOURS.items()}
SERIES = tuple(name for name in COLOURS if name.startswith("s"))
DASHES = ("solid", "dashed", "dashdot", "dotted")


def line_style(number: int) -> tuple[str, str]:
    """The colour name and dash pattern of line number 0, 1, ...; twelve lines all differ."""
    return SERIES[number % len(SERIES)], DASHES[number % len(DASHES)]
