"""The documents say what is true: their examples run, and what they point to exists."""

import re
import shlex
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from surelabel.cli import sweep
from surelabel.cli.fit import read_options
from surelabel.cli.main import main
from surelabel.config.benchmarks import NAMED_DATA
from surelabel.config.methods import METHODS
from surelabel.config.recipes import recipe
from surelabel.config.run import Batch, Network
from surelabel.inference.trained_run import load
from surelabel.utils.errors import UserError
from tests.helpers.cli import parse
from tests.helpers.runs import fit_folder

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "paper-map.md").read_text()


@pytest.mark.slow
def test_registry_takes_a_method_by_one_line(tiny, tmp_path, monkeypatch, digits_file, capsys):
    """The guide's file, as it stands, with its line in the registry: trained, resumed, and with a teacher."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "add-a-method.md").read_text(), re.DOTALL)[1]
    (tmp_path / "rising_method.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(METHODS, "rising", "rising_method:rising")
    for method in ("rising", "rising+ema"):
        out = str(tmp_path / method)
        settings = ["--method", method, "--labels", "40", "--steps", "3", "--threads", "1", "--out", out]
        assert main(["fit", "--data", str(digits_file), *settings]) == 0
        assert load(out).metrics["samples"] > 0
    assert main(["fit", "--method", "rising", "--selection.threshold", "0.5"]) == 2
    assert "--selection.threshold has no effect" in capsys.readouterr().err


def test_own_modules_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "own-modules.md").read_text(), re.DOTALL)[1]
    random = np.random.default_rng(0)
    signals = random.normal(size=(100, 2, 20)).astype(np.float32)
    made = {"__name__": "guide", "signals": signals, "labels": np.arange(100) % 2}
    made |= {"test_signals": signals[:9], "test_labels": np.arange(9) % 2, "new_signals": signals[:5]}
    exec(compile(code.replace("steps=40", "steps=2"), "own-modules.md", "exec", dont_inherit=True), made)
    assert (tmp_path / "runs" / "signals" / "result.json").exists()
    np.testing.assert_allclose(made["predictions"].probs.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(made["again"].predict(signals[:5]).probs, made["predictions"].probs)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["suggest.md", "calibration.md"])
def test_guides_code_with_a_run_runs(page, tmp_path, monkeypatch, capsys):
    pytest.importorskip("mapie")
    monkeypatch.chdir(tmp_path)
    small = replace(recipe("uda", "phc", "10%"), steps=2, batch=Batch(4, 1), network=Network("wrn-10-1"), threads=1)
    fit_folder(small, console=Console(quiet=True))  # in the folder that it has by itself, which the guide names
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)[1]
    exec(compile(code, page, "exec", dont_inherit=True), {})
    assert capsys.readouterr().out


@pytest.mark.parametrize("entry", sorted(set(re.findall(r"`(surelabel(?:\.\w+)+)`", MAP))))
def test_paper_map_functions_exist(entry):
    parts = entry.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return
    pytest.fail(f"{entry} does not exist")


@pytest.mark.parametrize("entry", sorted(set(re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", MAP))))
def test_paper_map_tests_exist(entry):
    path, name = entry
    text = (ROOT / path).read_text()
    assert not name or f"def {name}(" in text


ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in MAP.splitlines() if line.startswith("| ")][1:]
# All that the paper numbers.
NUMBERED = [
    *(f"Eq. {number}" for number in range(1, 5)), "Algorithm 1", "Algorithm 2", "Theorem 1", "Corollary 1",
    *(f"Table {number}" for number in range(1, 11)),
    "Fig. 1a", "Fig. 1b", *(f"Fig. {number}" for number in range(2, 8)),
]  # fmt: skip


@pytest.mark.parametrize("entry", NUMBERED)
def test_paper_map_has_all_numbered_parts(entry):
    rows = [row for row in ROWS if re.search(rf"(^|[,;] ){re.escape(entry)}([,;]|$)", row[0])]
    assert rows
    for row in rows:
        assert len(row) == 5
        assert row[2].startswith("`surelabel.")
        assert row[3].startswith("`tests/")
    assert any(row[4].startswith("`surelabel ") for row in rows)


def test_paper_map_commands_exist():
    from surelabel.cli.main import COMMANDS
    from surelabel.studies.catalogue import STUDIES

    commands = [command.split() for row in ROWS for command in re.findall(r"`surelabel ([^`]+)`", row[4])]
    assert {command[0] for command in commands} <= set(COMMANDS)
    assert sorted(command[1] for command in commands if command[0] == "study") == sorted(STUDIES)


def test_paper_map_places_each_study():
    from surelabel.studies.catalogue import STUDIES

    for row in ROWS:
        for name in re.findall(r"`surelabel study ([\w-]+)`", row[4]):
            place = STUDIES[name].place.partition(" (")[0].replace("Figure", "Fig.").replace("Appendix", "App.")
            assert place in row[0].split("; ")


PAGES = sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_docs_links_exist(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text()):
        assert (ROOT / page.parent / target).exists(), target


def commands_of(page):
    """The commands in a page, as lists of words: lines of their own, and those with arguments within the text."""
    text = (ROOT / page).read_text()
    blocks = "".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    found = re.findall(r"^(?:.*; do)? *surelabel ([^\n#]+)", blocks, re.MULTILINE)
    if page.name != "CHANGELOG.md":  # which says what was so at its time
        found += re.findall(r"`surelabel ([\w-]+ [^`\n]+)`", text)
    for variable, value in {"$seed": "0", "$method": "fixmatch"}.items():
        found = [line.replace(variable, value) for line in found]
    return [shlex.split(line) for line in found if "--help" not in line]


COMMANDS_OF = [(page, words) for page in PAGES for words in commands_of(page)]


def read_only(words, monkeypatch):
    """Parse a command as it parses itself, and read what it would train where that needs no file of the reader's."""
    monkeypatch.setattr(sweep, "sweep", lambda *_: None)
    options = parse(words)
    given = vars(options)
    if words[0] == "sweep":
        assert sweep.run(options) == 0
    elif words[0] != "fit":
        return
    elif {options.positional or "phc", given.get("data", "phc")} <= set(NAMED_DATA) and not {
        "from",
        "resume",
        "config",
    } & given.keys():
        read_options(options)


@pytest.mark.parametrize(("page", "words"), COMMANDS_OF, ids=lambda part: " ".join(part) if type(part) is list else "")
def test_docs_commands_parse(page, words, tmp_path, monkeypatch):
    """Unknown options, wrong values, and settings that the method does not read are refused there."""
    monkeypatch.chdir(tmp_path)
    read_only(words, monkeypatch)


def test_docs_show_every_command():
    from surelabel.cli.main import COMMANDS

    assert {words[0] for _, words in COMMANDS_OF} == set(COMMANDS) - {"recipes", "completion"}


@pytest.mark.parametrize(
    "line",
    [
        "study table1 --worker 2", "study table1 --workers 0", "predict RUN PICTURES --calibrat DATA -o out.csv",
        "suggest RUN -n many", "export RUN", "fit --method bam-uda --selection.threshold 0.9", "report -o report.html",
        "evaluate RUN --bounds", "data audit-phc --crystals 30", "sweep --trials 20 --space optimizer.lr=log:0.3",
        "sweep --space selection.threshold=0.7:0.99 --data photos --labels 100",
    ],
)  # fmt: skip
def test_docs_check_notices_a_wrong_command(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SystemExit, UserError)):
        read_only(line.split(), monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_docs_name_run_folders_rightly(page):
    assert not re.search(r"\bruns/\S*%", (ROOT / page).read_text())  # 10 % of the labels are 10pct there


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_docs_have_no_placeholders(page):
    assert not re.search(r"TO BE |TABLE-|-TABLE|TODO", (ROOT / page).read_text())


def test_report_guide_section_renders(monkeypatch):
    from surelabel.report import Section, page

    codes = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "report.md").read_text(), re.DOTALL)
    asked = []
    monkeypatch.setattr("surelabel.report.write_report", lambda *given, **named: asked.append((given, named)))
    monkeypatch.setattr("surelabel.inference.trained_run.load", lambda folder: folder)
    exec(compile("\n".join(codes), "report.md", "exec", dont_inherit=True), {})
    (section,) = asked[1][1]["sections"]
    assert isinstance(section, Section)
    assert page._environment().from_string(section.template).render(section.values) == "<p>Ask R&amp;D about these.</p>"
