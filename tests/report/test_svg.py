import re
from xml.etree import ElementTree

import matplotlib
import pytest

from surelabel.report.charts import Line, curves
from surelabel.report.palette import LIGHT
from surelabel.report.svg import inline, picture

SPACE = 'xmlns="http://www.w3.org/2000/svg"'


def drawn():
    return curves([Line("a", [1, 2], [0.1, 0.2])], percent=True)


@pytest.fixture
def chart():
    return drawn()


def test_inline_makes_ids_unique_and_keeps_references(chart):
    one, two = inline(chart, "one"), inline(chart, "two")
    ids = [re.findall(r'\bid="([^"]+)"', text) for text in (one, two)]
    assert ids[0]
    assert not set(ids[0]) & set(ids[1])
    pointed = re.findall(r'(?:href="|url\()#([^")]+)', one)
    assert pointed
    assert set(pointed) <= set(ids[0])


def test_inline_is_self_contained_xml(chart):
    text = inline(chart, "one")
    ElementTree.fromstring(text.replace("<svg ", f"<svg {SPACE} ", 1))
    assert "<style" not in text
    assert "<metadata" not in text
    assert "http" not in text


def test_inline_uses_the_colours_of_the_page(chart):
    assert set(re.findall(r"#[0-9a-f]{6}\b", inline(chart, "one"))) == set()
    assert "var(--s1)" in inline(chart, "one")
    assert LIGHT["s1"] in picture(chart, "svg").decode()


def test_inline_keeps_text_and_ignores_other_settings(chart):
    expected = inline(chart, "one")
    with matplotlib.rc_context({"svg.fonttype": "path", "axes.edgecolor": "red"}):
        assert inline(drawn(), "one") == expected
    assert ">step</text>" in expected


def test_picture_is_reproducible(chart):
    assert picture(chart, "svg") == picture(drawn(), "svg")
    assert picture(chart, "png").startswith(b"\x89PNG")
