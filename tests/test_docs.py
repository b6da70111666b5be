"""The documents say what is true: their examples run, and what they point to exists."""

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel import build, build_data
from surelabel.methods import METHODS

ROOT = Path(__file__).parent.parent
MAP = (ROOT / "docs" / "paper-map.md").read_text()


def test_the_method_of_the_guide_works_as_it_stands(tiny, digits_data, monkeypatch):
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "add-a-method.md").read_text(), re.DOTALL)[1]
    made = {"__name__": "rising"}
    exec(compile(code, "add-a-method.md", "exec", dont_inherit=True), made)
    monkeypatch.setitem(METHODS, "rising", made["rising"])
    run = build.resolve(replace(tiny, method="rising"))
    method = build.build_method(run)
    state = build.build_state(run, build.build_network(run, build_data.task_of(digits_data)), method)
    loader = build.build_loader(run, digits_data, build_data.build_split(run, digits_data))
    losses, after = method.loss(state.network, state.network, loader(0), state.selection, 0)
    assert torch.isfinite(losses.total)
    assert after["mean"] > 0
    assert method.select == made["rising"].select


def test_the_network_and_views_of_the_guide_work_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "own-modules.md").read_text(), re.DOTALL)[1]
    random = np.random.default_rng(0)
    signals = random.normal(size=(100, 2, 20)).astype(np.float32)
    made = {"__name__": "guide", "signals": signals, "labels": np.arange(100) % 2}
    made |= {"test_signals": signals[:9], "test_labels": np.arange(9) % 2}
    exec(compile(code.replace("steps=40", "steps=2"), "own-modules.md", "exec", dont_inherit=True), made)
    assert (tmp_path / "runs" / "signals" / "result.json").exists()


@pytest.mark.parametrize("entry", sorted(set(re.findall(r"`(surelabel(?:\.\w+)+)`", MAP))))
def test_every_function_in_the_paper_map_exists(entry):
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
def test_every_test_in_the_paper_map_exists(entry):
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
def test_the_paper_map_has_all_that_the_paper_numbers(entry):
    rows = [row for row in ROWS if re.search(rf"(^|[,;] ){re.escape(entry)}([,;]|$)", row[0])]
    assert rows
    assert all(len(row) == 5 and all(row) for row in rows)
    assert entry.startswith("Eq") or any(row[4].startswith("`surelabel ") for row in rows)


def test_every_command_in_the_paper_map_exists_and_every_study_is_in_it():
    from surelabel.cli import COMMANDS
    from surelabel.study.catalogue import STUDIES

    commands = [command.split() for row in ROWS for command in re.findall(r"`surelabel ([^`]+)`", row[4])]
    assert {command[0] for command in commands} <= set(COMMANDS)
    assert sorted(command[1] for command in commands if command[0] == "study") == sorted(STUDIES)


def test_a_study_is_where_the_paper_map_says():
    from surelabel.study.catalogue import STUDIES

    for row in ROWS:
        for name in re.findall(r"`surelabel study ([\w-]+)`", row[4]):
            place = STUDIES[name].place.partition(" (")[0].replace("Figure", "Fig.").replace("Appendix", "App.")
            assert place in row[0].split("; ")


PAGES = sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_between_the_documents_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text()):
        assert (ROOT / page.parent / target).exists(), target


def test_documents_name_only_commands_and_options_that_exist():
    from surelabel.cli import COMMANDS
    from surelabel.fit_options import EXTRA
    from surelabel.settings import keys

    known = {*dict(keys()), *EXTRA, "help", "version"}
    asked = 0
    for page in PAGES:
        for command, rest in re.findall(
            r"^(?:.*; do)? *surelabel ([\w-]+)([^\n#]*)", (ROOT / page).read_text(), re.MULTILINE
        ):
            asked += 1
            assert command in COMMANDS, (page, command)
            if command == "fit":
                used = {option.replace("-", "_") for option in re.findall(r"--([\w.-]+)", rest)}
                assert used <= known, (page, used - known)
    assert asked > 10


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_no_document_waits_for_a_figure(page):
    assert not re.search(r"TO BE |TABLE-|-TABLE|TODO", (ROOT / page).read_text())


def test_the_section_of_the_report_guide_works_as_it_stands(monkeypatch):
    from surelabel.report import Section, page

    codes = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "report.md").read_text(), re.DOTALL)
    asked = []
    monkeypatch.setattr("surelabel.report.write_report", lambda *given, **named: asked.append((given, named)))
    exec(compile("\n".join(codes), "report.md", "exec", dont_inherit=True), {})
    (section,) = asked[1][1]["sections"]
    assert isinstance(section, Section)
    assert page._environment().from_string(section.template).render(section.values) == "<p>Ask R&amp;D about these.</p>"
