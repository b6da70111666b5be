"""surelabel report: One self-contained HTML page about a run, or several side by side."""

import argparse
from pathlib import Path

from surelabel.cli.predict import coverage_asked
from surelabel.cli.say import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", metavar="RUN", nargs="+", help="a run folder; the page compares several")
    parser.add_argument("-o", "--out", default="report.html", metavar="FILE", help="the page (default: report.html)")
    parser.add_argument("--calibrate", metavar="HELD_OUT", help="show what held-out labels say; as in predict")
    parser.add_argument("--coverage", type=float, metavar="SHARE", help="of the sets of classes shown (default: 0.9)")


def run(options: argparse.Namespace) -> int:
    coverage = coverage_asked(options)
    from surelabel.inference.outputs import check_output
    from surelabel.inference.trained_run import load
    from surelabel.report import check_page, write_report
    from surelabel.report.sections import sections

    check_page([Path(folder) for folder in options.folders], Path(options.out))
    runs = [load(folder) for folder in options.folders]
    check_output(options.out, runs, options.calibrate)
    for note in write_report(runs, options.out, sections(runs, options.calibrate, coverage)):
        say(note, options.out)
    say(f"The report is in {options.out}", options.out)
    return 0
