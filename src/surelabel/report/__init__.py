"""The report page: one self-contained HTML file about one run, or several side by side.

It reads run folders, and what their weights predict; it trains nothing.
"""

from surelabel.report.page import Section, check_page, write_report

__all__ = ["Section", "check_page", "write_report"]
