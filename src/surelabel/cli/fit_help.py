"""What `surelabel fit --help` shows: how to begin, then every setting with its default."""

import dataclasses
from argparse import Action
from collections.abc import Mapping

from surelabel.config.run import RunConfig
from surelabel.config.settings import flatten, parser

USAGE = "surelabel fit [DATA] [--OPTION VALUE ...]"
DESCRIPTION = """Train a classifier from a few labels and many unlabelled samples.

  surelabel fit PICTURES --labels labels.csv        a folder of pictures, and the classes of some of its files
  surelabel fit PICTURES --minutes 10               a sub-folder for each class, and one named unlabelled
  surelabel fit table.csv --label-column species    rows of a table
  surelabel fit --data cifar10 --labels 250 --data-dir DIR --method bam-uda

DATA is what --data is. Most used: --labels, --method, --minutes, --holdout, --cv, --seed, --out, --resume.
--method, --data, --labels and --size choose a recipe, which sets everything else; a --config file and any option
below change it. The defaults below are those of `surelabel fit` alone, FixMatch on the crystals; data of your own
get bam-uda and all labels. `surelabel fit YOUR OPTIONS --print-config` shows what a run would have."""


def fit_help(run: RunConfig, extra: Mapping[str, str]) -> str:
    """The page: the settings of this run, and `extra`, options that are none."""
    from jsonargparse import DefaultHelpFormatter

    class Page(DefaultHelpFormatter):
        """Options as they are written here, with dashes, and defaults without their types, which their values tell."""

        def _fill_text(self, text: str, width: int, indent: str) -> str:
            return text

        def _format_action_invocation(self, action: Action) -> str:
            return super()._format_action_invocation(action).replace("_", "-")

        def _get_help_string(self, action: Action) -> str:
            untold = action.nargs == 0 or action.default is None or action.default == ""
            return (action.help or "") + ("" if untold else " (default: %(default)s)")

    made = parser()
    made.usage, made.description, made.formatter_class = USAGE, DESCRIPTION, Page
    made.set_defaults(flatten(dataclasses.asdict(run)))
    for name, text in extra.items():
        made.add_argument(f"--{name}", help=text, action="store_true" if name == "print_config" else "store")
    found: str = made.format_help()
    return found
