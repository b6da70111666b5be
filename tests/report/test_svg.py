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


def test_the_ids_of_two_charts_differ_and_all_that_is_pointed_to_is_there(chart):
    one, two = inline(chart, "one"), inline(chart, "two")
    ids = [re.findall(r'\bid="([^"]+)"', text) for text in (one, two)]
    assert ids[0]
    assert not set(ids[0]) & set(ids[1])
    pointed = re.findall(r'(?:href="|url\()#([^")]+)', one)
    assert pointed
    assert set(pointed) <= set(ids[0])


def test_it_is_sound_xml_that_styles_and_names_nothing_outside_itself(chart):
    text = inline(chart, "one")
    ElementTree.fromstring(text.replace("<svg ", f"<svg {SPACE} ", 1))
    assert "<style" not in text
    assert "<metadata" not in text
    assert "http" not in text


def test_every_colour_is_one_of_the_pages(chart):
    assert set(re.findall(r"#[0-9a-f]{6}\b", inline(chart, "one"))) == set()
    assert "var(--s1)" in inline(chart, "one")
    assert LIGHT["s1"] in picture(chart, "svg").decode()


def test_text_stays_text_and_settings_made_elsewhere_do_not_matter(chart):
    expected = inline(chart, "one")
    with matplotlib.rc_context({"svg.fonttype": "path", "axes.edgecolor": "red"}):
        assert inline(drawn(), "one") == expected
    assert ">step</text>" in expected


def test_a_picture_is_the_same_each_time(chart):
    assert picture(chart, "svg") == picture(drawn(), "svg")
    assert picture(chart, "png").startswith(b"\x89PNG")
