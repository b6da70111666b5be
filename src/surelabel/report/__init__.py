"""The report page: one self-contained HTML file about one run, or several side by side."""

from surelabel.report.page import Section, check_page, write_report

__all__ = ["Section", "check_page", "write_report"]
