"""The page itself: runs into a template, and the template into one file."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import surelabel
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
    """A section of somebody else's making, at the end of a run's part, or, without a run, of the page.

    `template` is the text of a Jinja template, whose `values` are escaped like all else. It can use the page's own
    parts: {% from "parts.html" import samples %}.
    """

    title: str
    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    run: str | Path | None = None


def write_report(runs: Sequence[TrainedRun], out: str | Path, sections: Sequence[Section] = ()) -> list[str]:
    """Write a page about these runs; what could not be shown comes back, one note each.

    Args:
        runs: saved runs, at least one
        out: the HTML file
        sections: sections to add
    """
    page, notes = render(runs, sections, Path(out))
    with atomic_write(out) as file:
        file.write(page)
    return notes


def render(shown: Sequence[TrainedRun], sections: Sequence[Section], out: Path) -> tuple[str, list[str]]:
    """The page as text, and its notes."""
    paths = [run.path for run in shown]
    check_page(paths, out, sections)
    environment = _environment()
    names = distinct_names(paths)
    recorded = [read_recorded(run.folder or RunFolder(run.path)) for run in shown]
    made = [(section, environment.from_string(section.template).render(section.values)) for section in sections]
    from surelabel.report.comparison import COLUMNS, beside, comparison, overlaid, same_data
    from surelabel.report.palette import COLOURS
    from surelabel.report.run_view import view

    runs = [
        view(run, record, name, f"run-{number}")
        for number, (run, record, name) in enumerate(zip(shown, recorded, names, strict=True))
    ]
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    several = len(runs) > 1
    page = environment.get_template("page.html").render(
        runs=runs,
        columns=COLUMNS,
        comparison=comparison(runs) if several else [],
        overlaid=overlaid(runs) if several else [],
        beside=beside(runs) if several else [],
        same_data=all(same_data(runs[0], run) for run in runs),
        sections=made,
        colours=COLOURS,
        script=script,
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
        version=surelabel.__version__,
        today=date.today().isoformat(),
    )
    return _writable(page), [_writable(f"{run.name}: {note}") for run in runs for note in run.notes]


def _writable(text: str) -> str:
    """A folder's name may hold bytes that are not UTF-8, which no file of text can."""
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
        for name in ("percent", "sure", "spread", "plain", "count", "time_taken", "data_name")
    }
    return environment


def check_page(paths: Sequence[Path], out: Path, sections: Sequence[Section] = ()) -> None:
    """Raise on what would only come to light after minutes of predicting: runs, packages and names."""
    _environment()
    if not paths:
        raise UserError("name at least one run folder to report on")
    distinct_names(list(paths))
    if out.is_dir():
        raise UserError(f"{out} is a folder: name the HTML file to write, such as {out / 'report.html'}")
    known = {path.resolve() for path in paths}
    for section in sections:
        if section.run is not None and Path(section.run).resolve() not in known:
            raise UserError(f"the section {section.title!r} is about {section.run}, which is not a run of this report")
