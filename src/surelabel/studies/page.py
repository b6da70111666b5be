"""A study as files: Markdown, a self-contained HTML page, and charts as SVG and PNG."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.report.palette import COLOURS
from surelabel.studies import charts
from surelabel.studies.layout import Layout, side_by_side
from surelabel.studies.plan import Study
from surelabel.studies.tables import (
    Table,
    correlation_table,
    cost_table,
    detail_table,
    group_table,
    main_table,
    pair_table,
)
from surelabel.studies.trends import trend_table
from surelabel.utils.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
body { background: var(--page); color: var(--ink); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--rule); }
thead th { border-bottom: 2px solid var(--quiet); }
figure { margin: 1.5rem 0; }
figure img { max-width: 100%; }
"""


def tables_of(study: Study, layout: Layout) -> list[Table]:
    """The tables of the study that are not empty."""
    beside = side_by_side(study, layout)
    found: list[Table | None] = [main_table(study, beside)]
    if any(cell.records for cell in layout.cells.values()):
        if study.shows == "curves":
            found.append(trend_table(study, beside))
        if study.shows == "correlation":
            found.append(correlation_table(beside))
        if study.shows == "groups":
            found.append(group_table(study, layout))
        if study.shows == "cost":
            found.append(cost_table(study, layout))
        found += [pair_table(study, layout), detail_table(study, layout)]
    return [table for table in found if table is not None]


def write(
    study: Study,
    scale: str | None,
    tables: Sequence[Table],
    drawn: "Figure | None",
    folder: Path,
    state: str = "",
    pictures: Sequence[Path] = (),
    part: str = "",
) -> list[Path]:
    """Write NAME-SCALE.md, .html and the chart into the folder; return all paths.

    `pictures` are in the folder already. `part` is added to the names if this is only a part of the
    study, or one with other settings.
    """
    stem = "-".join(word for word in (study.name, scale, part) if word)
    words = [f"{study.place}, {scale} scale." if scale else f"{study.place}.", study.note, state]
    words = [word for word in words if word]
    saved = charts.save(drawn, folder / stem) if drawn else []
    vector = [path for path in saved if path.suffix == ".svg"] + list(pictures)
    shown = [f"![{study.what}]({path.name})" for path in vector]
    markdown = [f"# {study.name}", " ".join(words), *(table.markdown() for table in tables), *shown]
    written = [folder / f"{stem}.md", folder / f"{stem}.html"]
    with atomic_write(written[0]) as file:
        file.write("\n\n".join(markdown) + "\n")
    with atomic_write(written[1]) as file:
        file.write(_html(study, words, tables, drawn, pictures))
    return [*written, *saved, *pictures]


def _html(
    study: Study, words: Sequence[str], tables: Sequence[Table], drawn: "Figure | None", pictures: Sequence[Path]
) -> str:
    colours = " ".join(f"--{name}: light-dark({light}, {dark});" for name, (light, dark) in COLOURS.items())
    shown = [_image(path) for path in pictures]
    if drawn is not None:
        from surelabel.report.svg import inline

        chart = f'role="img" aria-label="{escape(study.what)}" style="max-width: {drawn.get_figwidth():g}in"'
        shown = [f"<figure {chart}>{inline(drawn, 'chart')}</figure>", *shown]
    body = "\n".join([*(table.html() for table in tables), *shown])
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(study.name)}</title>\n"
        f"<style>:root {{ color-scheme: light dark; {colours} }}{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(study.name)}</h1>\n<p>{escape(' '.join(words))}</p>\n{body}\n</body>\n</html>\n"
    )


def _image(path: Path) -> str:
    data = b64encode(path.read_bytes()).decode()
    return f'<figure><img alt="{escape(path.stem)}" src="data:image/png;base64,{data}"></figure>'
