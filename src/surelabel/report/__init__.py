"""The report page: one self-contained HTML file about one run, or several side by side.

It reads run folders, and what their weights predict; it trains nothing.
"""

from surelabel.report.page import Section, refuse, write_report

__all__ = ["Section", "refuse", "write_report"]
