"""What commands say: a console that does not obey the names that it shows."""

from typing import Any

from rich.console import Console
from rich.text import Text

from surelabel.utils.words import printable


class Screen(Console):
    """rich's console, which would pass on the escape sequences in a file's name, and draw a cat for `:cat:`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"emoji": False} | settings)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)
