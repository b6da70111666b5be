"""surelabel finetune: Train a linear head, and the backbone of RUN under it, with RUN's labels.

For PAWS, whose representations have no classifier of their own: 50 passes over the labels, SGD with learning rate 0.02
falling to zero. The result is a run folder, RUN-finetuned unless --out names another.
"""

import argparse

from surelabel.cli.fit import Options, check_used, train
from surelabel.cli.parser import add_settings, settings_given
from surelabel.config.recipes import finetune
from surelabel.config.settings import with_settings

SHOWN = {"run": ("steps", "out", "optimizer.lr", "data", "data_dir", "device", "threads")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    add_settings(parser, SHOWN, leave_out=("method", "init", "labels", "seed"))


def run(options: argparse.Namespace) -> int:
    return train(read_options(options), labels_of=options.folder)


def read_options(options: argparse.Namespace) -> Options:
    from surelabel.training.run_folder import RunFolder

    base, given = RunFolder(options.folder), settings_given(options)
    config = with_settings(finetune(base.config, options.folder, len(base.labelled())), given)
    check_used(config, given)
    return Options(config, resume=False)
