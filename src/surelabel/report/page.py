"""Render runs into one HTML file."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import surelabel
from surelabel.inference.outputs import check_output
from surelabel.inference.trained_run import TrainedRun
from surelabel.report.record import distinct_names, read_recorded
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import UserError, optional_import
from surelabel.utils.files import atomic_write

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Section:
    """A custom section, at the end of a run's article, or before all else if it `leads`; without `run`, of the page.

    `template` is the text of a Jinja template, whose `values` are escaped. It can import the page's macros:
    {% from "parts.html" import samples %}.
    """

    title: str
    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    run: str | Path | None = None
    leads: bool = False


def write_report(runs: Sequence[TrainedRun], out: str | Path, sections: Sequence[Section] = ()) -> list[str]:
    """Write a page about saved runs, at least one, to an HTML file; returns notes about what it cannot show."""
    paths = [run.path for run in runs]
    check_page(paths, Path(out), sections)
    check_output(out, runs)
    environment = _environment()
    names = distinct_names(paths)
    recorded = [read_recorded(run.folder or RunFolder(run.path)) for run in runs]
    rendered = [(section, environment.from_string(section.template).render(section.values)) for section in sections]
    from surelabel.report.comparison import COLUMNS, beside, comparison, overlaid, same_data
    from surelabel.report.palette import COLOURS
    from surelabel.report.run_view import view

    views = [
        view(run, record, name, f"run-{number}")
        for number, (run, record, name) in enumerate(zip(runs, recorded, names, strict=True))
    ]
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    several = len(views) > 1
    page = environment.get_template("page.html").render(
        runs=views,
        columns=COLUMNS,
        comparison=comparison(views) if several else [],
        overlaid=overlaid(views) if several else [],
        beside=beside(views) if several else [],
        same_data=all(same_data(views[0], other) for other in views),
        sections=rendered,
        colours=COLOURS,
        script=script,
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
        version=surelabel.__version__,
        today=date.today().isoformat(),
    )
    with atomic_write(out) as file:
        file.write(_valid_utf8(page))
    return [_valid_utf8(f"{run.name}: {note}") for run in views for note in run.notes]


def _valid_utf8(text: str) -> str:
    """Escape surrogates, from folder names that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _environment() -> "Environment":
    with optional_import("report", "the report page"):
        import matplotlib  # noqa: F401
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from surelabel.report import text as words

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        name: getattr(words, name)
        for name in ("percent", "sure", "spread", "plain", "count", "time_taken", "data_name", "interval")
    }
    return environment


def check_page(paths: Sequence[Path], out: Path, sections: Sequence[Section] = ()) -> None:
    """Raise for wrong runs, sections or file names and missing packages, before minutes of prediction."""
    _environment()
    if not paths:
        raise UserError("the report needs at least one run folder")
    distinct_names(list(paths))
    if out.is_dir():
        raise UserError(f"{out} is a folder: give the name of a file, such as {out / 'report.html'}")
    known = {path.resolve() for path in paths}
    for section in sections:
        if section.run is not None and Path(section.run).resolve() not in known:
            raise UserError(f"the section {section.title!r} is about {section.run}, which is not a run of this report")
