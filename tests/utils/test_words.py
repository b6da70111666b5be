import io
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st
from rich.table import Table

from surelabel.utils.console import Screen
from surelabel.utils.words import printable


@given(st.text())
@example("\x1b]0;title\x07\x9b31m\x7f\r\b\x00")
@example("\u202e\u2066\u2028\ufeff\xad\ud800")
def test_printable_text_controls_nothing(text):
    shown = printable(text)
    kinds = {unicodedata.category(sign) for sign in shown if sign not in "\n\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert printable(shown) == shown


def test_printable_keeps_what_is_meant_to_be_seen():
    text = "naïve, 猫, 👩\u200d🔬, می\u200cخواهم: two\nlines [red]"
    assert printable(text) == text


def test_screen_obeys_no_name():
    file = io.StringIO()
    screen = Screen(file=file, force_terminal=True, color_system=None, width=80)
    table = Table("\x1b[31m")
    table.add_row(":cat:\x1b[2J")
    screen.print("\x1b[1A:dog:", markup=False)
    screen.print(table)
    assert "\x1b" not in file.getvalue()
    assert ":dog:" in file.getvalue()
    assert ":cat:" in file.getvalue()
