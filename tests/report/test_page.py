"""The page: as text, and in a browser."""

import csv
import io
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from surelabel.cli.main import main
from surelabel.config.run import Evaluation
from surelabel.inference.trained_run import fit, load
from surelabel.report import Section, write_report
from surelabel.utils.errors import UserError
from surelabel.utils.intervals import wilson
from tests.conftest import digits
from tests.report.conftest import NAMES, trained

pytestmark = pytest.mark.slow

VOID = {"meta", "link", "img", "br", "input"}
CHROMIUM = shutil.which("chromium")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")


class Checker(HTMLParser):
    """Collects ids, links, tags and text; fails for tags that are not nested."""

    def __init__(self, page):
        super().__init__()
        self.open, self.ids, self.links, self.tags, self.text, self.addresses = [], [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"][1:]] if attrs.get("href", "").startswith("#") else []
        self.addresses += [attrs[key] for key in ("src", "href") if key in attrs]
        assert not any(name.startswith("on") for name in attrs), attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def checked(path):
    page = path.read_text(encoding="utf-8")
    found = Checker(page)
    assert len(set(found.ids)) == len(found.ids)
    assert set(found.links) <= set(found.ids)
    assert all(address.startswith(("#", "data:")) for address in found.addresses)
    return page, found


@pytest.fixture(scope="module")
def one_page(point_run, tmp_path_factory):
    out = tmp_path_factory.mktemp("one") / "report.html"
    assert write_report([load(point_run)], out) == []
    return out


@pytest.fixture(scope="module")
def several_page(point_run, bayesian_run, untested_run, tmp_path_factory):
    out = tmp_path_factory.mktemp("several") / "report.html"
    write_report([load(run) for run in (point_run, bayesian_run, untested_run)], out)
    return out


def test_page_is_valid_complete_and_small(one_page):
    page, found = checked(one_page)
    assert len(page) < 2_000_000
    assert found.tags.count("script") == 1
    text = " ".join(found.text)
    for words in ("Calibration error", "By class", "Confusions", "The most confident mistakes", "Settings", "torch"):
        assert words in text
    assert text.count(NAMES[0]) > 3
    assert NAMES[3] in text


def test_page_compares_several_runs_first(several_page):
    page, _ = checked(several_page)
    assert page.index("3 runs compared") < page.index('id="run-0"') < page.index('id="run-1"')
    assert "These runs do not all have the same data" in page
    assert "★" in page


def test_page_of_few_test_samples_has_intervals_and_no_ece(tiny, tmp_path):
    run = fit(tiny, console=Console(file=io.StringIO()))  # 397 test samples
    run.report(tmp_path / "few.html")
    page = " ".join(Checker((tmp_path / "few.html").read_text(encoding="utf-8")).text)
    for words in ("ECE", "Calibration error", "How far to trust its confidence", "too sure"):
        assert words not in page
    low, high = wilson(run.metrics["averaged"]["accuracy"], 397)
    assert page.count(f"({100 * low:.0f} to {100 * high:.0f}\N{NO-BREAK SPACE}%)") >= 3  # card, sentence and table
    another = fit(replace(tiny, out=str(tmp_path / "other")), console=Console(file=io.StringIO()))
    write_report([run, another], tmp_path / "both.html")
    assert "ECE 0" not in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_page_notes_a_missing_test_set(untested_run, tmp_path):
    (note,) = write_report([load(untested_run)], tmp_path / "report.html")
    page, _ = checked(tmp_path / "report.html")
    assert "untested: These data have no test set" in note
    assert note.removeprefix("untested: ") in page
    assert "The most uncertain samples of the pool" in page
    assert "Pseudo-labels" in page
    assert "Confusions" not in page


def test_page_shows_an_unfinished_run(unfinished, tmp_path):
    (note,) = write_report([load(unfinished)], tmp_path / "report.html")
    page, _ = checked(tmp_path / "report.html")
    assert "its last evaluation was at step 8, of 12 steps planned" in note
    assert "Calibration error" in page


def test_page_shows_only_settings_before_the_first_evaluation(point_run, copied, tmp_path):
    folder = copied(point_run)
    for path in folder.iterdir():
        if path.name not in ("config.yaml", "task.json", "split.json", "environment.json"):
            path.unlink()
    notes = write_report([load(folder)], tmp_path / "report.html")
    page, _ = checked(tmp_path / "report.html")
    assert "it has no evaluation yet" in notes[0]
    assert "has no weights yet" in notes[1]
    assert "All settings" in page


def test_page_without_the_data_shows_stored_metrics(point_run, copied, tmp_path):
    folder = copied(point_run)
    (folder / "config.yaml").write_text((folder / "config.yaml").read_text().replace("digits.npz", "gone.npz"))
    (folder / "task.json").unlink()
    notes = write_report([load(folder)], tmp_path / "report.html")
    page, _ = checked(tmp_path / "report.html")
    assert any("gone.npz" in note for note in notes)
    assert "Calibration error" in page
    assert "Accuracy and confidence" in page
    assert "most confident mistakes" not in page


def test_page_has_custom_sections_with_escaped_values(point_run, tmp_path):
    template = '{% from "parts.html" import samples %}<p>{{ words }}</p>{{ samples([], []) }}'
    values = {"words": "<b>bold</b>"}
    sections = [Section("Label <these> next", template, values, run=point_run), Section("The end", template, values)]
    write_report([load(point_run)], tmp_path / "report.html", sections)
    page, _ = checked(tmp_path / "report.html")
    assert page.count("&lt;b&gt;bold&lt;/b&gt;") == 2
    assert page.index("Label &lt;these&gt; next") < page.index("All settings") < page.index("The end")


def test_page_accepts_folder_names_that_are_not_utf8(point_run, tmp_path):
    folder = tmp_path / os.fsdecode(b"run-\xff")
    shutil.copytree(point_run, folder)
    (folder / "environment.json").unlink()
    assert write_report([load(folder)], tmp_path / "report.html") == [
        "run-\\udcff: environment.json is missing from the run folder."
    ]
    checked(tmp_path / "report.html")


def test_write_report_checks_its_arguments(point_run, tmp_path):
    with pytest.raises(UserError, match="nowhere is not a run folder"):
        write_report([load(point_run), load("nowhere")], tmp_path / "report.html")
    with pytest.raises(UserError, match="is a folder: give the name of a file"):
        write_report([load(point_run)], tmp_path)
    with pytest.raises(UserError, match="at least one run folder"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(UserError, match="not a run of this report"):
        write_report([load(point_run)], tmp_path / "report.html", [Section("x", "", run="elsewhere")])
    assert list(tmp_path.iterdir()) == []


def test_report_command_checks_its_arguments_before_predicting(point_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("surelabel.report.sections.sections", None)
    assert main(["report", str(point_run), "-o", str(tmp_path)]) == 2
    assert main(["report", str(point_run), str(point_run), "-o", str(tmp_path / "report.html")]) == 2
    assert "twice" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_write_report_names_the_extra_of_a_missing_package(missing, tmp_path, monkeypatch, point_run):
    for name in [missing, *(name for name in sys.modules if name.partition(".")[0] == missing)]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"needs the package {missing}: pip install 'surelabel\[report\]'"):
        write_report([load(point_run)], tmp_path / "report.html")


def test_report_command_writes_the_page(point_run, tmp_path, capsys):
    assert main(["report", str(point_run), "-o", str(tmp_path / "sub" / "page.html")]) == 0
    assert capsys.readouterr().out == f"The report is in {tmp_path / 'sub' / 'page.html'}\n"
    checked(tmp_path / "sub" / "page.html")


def test_report_help_imports_no_heavy_library():
    program = (
        "import sys\nfrom surelabel.cli.main import main\ntry: main(['report', '--help'])\n"
        "except SystemExit: print({'torch', 'matplotlib', 'jinja2'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.endswith("set()\n")
    assert "a run folder; the page compares several" in said


@pytest.fixture(scope="module")
def thousand_page(base, tmp_path_factory):
    """The page of a run with 1,000 classes."""
    root = tmp_path_factory.mktemp("thousand")
    random = np.random.default_rng(0)
    labels = np.tile(np.arange(1000), 2)
    images = random.integers(0, 256, (2000, 8, 8), dtype=np.uint8)
    np.savez(root / "thousand.npz", images=images, labels=labels, test_images=images, test_labels=labels)
    config = replace(base, data=str(root / "thousand.npz"), labels=1000, out=str(root / "run"))
    config = replace(config, steps=1, evaluation=Evaluation(1, 100))
    write_report([load(trained(config))], root / "report.html")
    return root / "report.html"


def test_page_of_a_thousand_classes_is_small(thousand_page):
    page, _ = checked(thousand_page)
    assert len(page) < 2_000_000
    assert "confusion" not in re.findall(r'<table class="(\w+)"', page)
    assert "The 30 most frequent, among 1,000 classes." in page


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def opened(browser):
    """Opens a page; in the end, checks that it fetched nothing and reported no error."""
    pages = []

    def visit(path, width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        pages.append((page, path, said, asked))
        return page

    yield visit
    for page, path, said, asked in pages:
        page.wait_for_timeout(50)
        page.close()
        assert said == []
        assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


@in_browser
def test_page_escapes_names(opened, several_page):
    page = opened(several_page)
    assert page.locator("table.classes").first.locator("tbody th").all_inner_texts() == [name.strip() for name in NAMES]
    assert page.locator("img:not([src^='data:image/png'])").count() == 0
    assert page.locator("script").count() == 1


@in_browser
def test_page_policy_blocks_other_scripts_and_requests(browser, one_page):
    page = browser.new_page()
    page.goto(one_page.as_uri())
    page.evaluate(
        """() => { const script = document.createElement('script'); script.textContent = 'window.ran = true';
        document.body.append(script); }"""
    )
    assert page.evaluate("window.ran") is None
    assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'fetched', () => 'refused')") == "refused"
    page.close()


def column(table, number):
    return table.evaluate(
        "(table, number) => [...table.tBodies[0].rows].map(row => row.cells[number].dataset.value)", number
    )


@in_browser
def test_page_table_sorts_by_clicks(opened, one_page):
    table = opened(one_page).locator("table.classes")
    before = [float(value) for value in column(table, 1)]
    heading = table.locator("thead th").nth(1)
    heading.locator("button").click()
    assert [float(value) for value in column(table, 1)] == sorted(before, reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"
    heading.locator("button").click()
    assert [float(value) for value in column(table, 1)] == sorted(before)
    table.locator("thead button").first.click()
    assert heading.get_attribute("aria-sort") is None
    names = table.locator("tbody th").all_inner_texts()
    assert names != [name.strip() for name in NAMES]
    assert sorted(names) == sorted(name.strip() for name in NAMES)


@in_browser
def test_page_table_sorts_missing_values_last(opened, one_page):
    page = opened(one_page)
    table = page.locator("table.classes")
    page.evaluate("document.querySelector('table.classes tbody tr').cells[1].dataset.value = ''")
    for _ in range(2):
        table.locator("thead th").nth(1).locator("button").click()
        assert column(table, 1)[-1] == ""


@in_browser
def test_page_gallery_shows_the_chosen_class(opened, one_page):
    gallery = opened(one_page).locator(".gallery").first
    shown = gallery.locator(".samples > li:visible")
    assert shown.count() == 24
    for value in gallery.locator("option").evaluate_all("options => options.slice(1).map(option => option.value)"):
        gallery.locator("select").select_option(value)
        classes = [text.split() for text in shown.evaluate_all("items => items.map(item => item.dataset.classes)")]
        assert classes
        assert all(value in pair for pair in classes)
        assert gallery.locator(".found").inner_text() == f"{len(classes)} shown"
    gallery.locator("select").select_option("")
    assert shown.count() == 24


@in_browser
def test_page_table_finds_a_class_by_name(opened, thousand_page):
    page = opened(thousand_page)
    page.locator(".find").fill("77")
    names = page.locator("table.classes tbody tr:visible th").all_inner_texts()
    assert names == [str(number) for number in range(1000) if "77" in str(number)]


@pytest.fixture(scope="module")
def sure_page(tmp_path_factory):
    """The page of a cross-fitted run with labels enough for a reliability diagram, some of them wrong."""
    root = tmp_path_factory.mktemp("sure")
    images, labels = digits()
    labels[[3, 5]] = (labels[[3, 5]] + 3) % 10
    names = [NAMES[label] if number < 520 else "" for number, label in enumerate(labels[:700])]
    with (root / "digits.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [[*row, name] for row, name in zip(images[:700].reshape(700, -1).tolist(), names, strict=True)]
        csv.writer(file).writerows([[*(f"pixel {number}" for number in range(64)), "label"], *rows])
    words = ["fit", str(root / "digits.csv"), "--network.name", "members-20-32", "--steps", "60", "--threads", "1"]
    assert main([*words, "--accept", "0.9", "--sets", "0.9", "--out", str(root / "run")]) == 0
    return root / "run" / "report.html"


def test_page_of_a_cross_fitted_run_is_complete(sure_page):
    page, found = checked(sure_page)
    text = " ".join(found.text)
    for words in ("How many to accept", "Calibration error", "Confidence and accuracy of the left-out labels",
                  "Log loss", "Joined", "Sets of classes", "Labels that look wrong"):  # fmt: skip
        assert words in text
    assert "most uncertain samples" not in text  # those to label next are
    assert len(page) < 2_000_000


@in_browser
@pytest.mark.parametrize("which", ["one_page", "several_page", "thousand_page", "sure_page"])
def test_page_fits_on_a_phone(opened, which, request):
    page = opened(request.getfixturevalue(which), width=390)
    for details in page.locator("summary").all():
        details.click()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    # Wider parts, such as tables, scroll.
    beyond = page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter(part => !part.closest('.scroll, svg')
        && part.getBoundingClientRect().right > 390.5).map(part => part.outerHTML.slice(0, 80))"""
    )
    assert beyond == []


LEAST_CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const known = {};
  const read = (colour) => {
    if (!(colour in known)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      known[colour] = [...canvas.getImageData(0, 0, 1, 1).data];
    }
    return known[colour];
  };
  const linear = (part) => part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (part) => {
    for (; part; part = part.parentElement) {
      const colour = read(getComputedStyle(part).backgroundColor);
      if (colour[3] === 255) return colour;
    }
  };
  const texts = [...document.querySelectorAll('body *')].filter(part => part.checkVisibility()
    && [...part.childNodes].some(node => node.nodeType === 3 && node.data.trim()) && part.localName !== 'script');
  const found = texts.map(part => {
    const style = getComputedStyle(part);
    const own = read(part instanceof SVGElement ? style.fill : style.color);
    const [low, high] = [own, ground(part)].map(luminance).sort((a, b) => a - b);
    return [(high + 0.05) / (low + 0.05), part.outerHTML.slice(0, 100)];
  });
  return [found.length, ...found.sort((a, b) => a[0] - b[0])[0]];
}"""


@in_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", ["several_page", "sure_page"])
def test_page_text_has_enough_contrast(opened, which, scheme, request):
    page = opened(request.getfixturevalue(which), scheme=scheme)
    count, least, where = page.evaluate(LEAST_CONTRAST)
    assert count > 200
    assert least >= 4.5, where


@in_browser
def test_page_button_switches_the_theme(opened, one_page):
    page = opened(one_page, scheme="dark")
    ground = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")  # noqa: E731
    dark = ground()
    page.locator("#theme").click()
    light = ground()
    assert light == "rgb(255, 255, 255)" != dark
    page.locator("#theme").click()
    assert ground() == dark


@in_browser
def test_page_without_scripts_has_no_controls(browser, one_page):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(one_page.as_uri())
    assert page.locator("select:visible, #theme:visible").count() == 0
    assert page.locator(".gallery").first.locator("li:visible").count() == 24
    context.close()
