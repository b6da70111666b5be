import pytest

from surelabel.report.palette import COLOURS, LIGHT, line_style


def luminance(colour):
    """Relative luminance as in WCAG 2.1."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", ["page", "card"])
@pytest.mark.parametrize("name", ["ink", "quiet", "accent", "s2", "s3"])
@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_of_text_have_enough_contrast(name, ground, mode):
    assert contrast(COLOURS[name][mode], COLOURS[ground][mode]) >= 4.5


@pytest.mark.parametrize("name", [name for name in COLOURS if name.startswith("s")])
@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_of_lines_have_enough_contrast(name, mode):
    assert contrast(COLOURS[name][mode], COLOURS["page"][mode]) >= 3


def test_colours_and_twelve_line_styles_differ():
    assert len(set(LIGHT.values())) == len(LIGHT)
    assert len({line_style(number) for number in range(12)}) == 12
