"""The command line. A command is a file of this room, imported when it is asked for: --help must not wait for torch."""

import argparse
import os
import re
import sys
from importlib import import_module

from surelabel import __version__
from surelabel.cli.parser import Parser
from surelabel.cli.say import Unheard, end_unheard, heard
from surelabel.utils.errors import FolderExists, UserError, suggestion
from surelabel.utils.words import printable

DESCRIPTION = "Train a classifier from a few labels and many unlabelled samples, with a confidence worth trusting."
EPILOG = "With no option at all, `surelabel fit` trains on the photonic crystals that come with the package."
COMMANDS = {
    "fit": "train a classifier, and evaluate it",
    "finetune": "train a linear head on a run's backbone with the same labels",
    "evaluate": "the metrics of a finished run, on its test set or on other data with labels",
    "predict": "classes and confidences for new samples, as CSV",
    "embed": "pictures or texts as rows of numbers, by a pretrained network",
    "join": "one file of the parts that several processes have written",
    "suggest": "which samples to label next, as CSV",
    "export": "a run's network as an ONNX file",
    "report": "a page about a run, or several side by side, to open in a browser",
    "study": "make a table or figure of the paper, by one worker or many",
    "sweep": "tune the settings of a run",
    "methods": "all methods, and the papers that they come from",
    "recipes": "the settings of the paper's benchmarks",
    "data": "make tar shards of images; make and check the photonic-crystal data set",
    "completion": "print a script that completes commands and options in your shell",
}

OUT_OF_MEMORY = re.compile(r"out of memory|allocate memory|not enough memory")
# Commands that may need a pretrained network, which may have to be downloaded.
NETWORKED = ("fit", "finetune", "evaluate", "predict", "suggest", "export", "report", "study", "sweep")

# Of commands with an option for each setting.
USAGE = {
    "fit": "surelabel fit [DATA] [--OPTION VALUE ...]",
    "finetune": "surelabel finetune RUN [--OPTION VALUE ...]",
    "sweep": "surelabel sweep [DATA] --space KEY=VALUES [--OPTION VALUE ...]",
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command; a user's mistake is one clear message and exit code 2."""
    try:
        with heard():
            return _run(sys.argv[1:] if arguments is None else arguments)
    except Unheard as unheard:
        return end_unheard(unheard)


def _run(words: list[str]) -> int:
    try:
        options = parser(words).parse(words)
        if getattr(options, "offline", False):
            os.environ["HF_HUB_OFFLINE"] = "1"  # for the packages that reach the hub, and for child processes
        code: int = options.run(options) if hasattr(options, "run") else _no_command(options)
        return code
    except UserError as error:
        print(f"surelabel: {printable(in_options(error))}", file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:  # torch's is a RuntimeError
        if isinstance(error, RuntimeError) and not OUT_OF_MEMORY.search(str(error)):
            raise
        print("surelabel: there is not enough memory: choose a smaller batch, network or image_size", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("surelabel: interrupted", file=sys.stderr)
        return 130


def parser(words: list[str] | None = None) -> Parser:
    """The parser of all commands; of commands that these words do not name, without their options."""
    made = Parser(prog="surelabel", description=DESCRIPTION, epilog=EPILOG)
    made.add_argument("--version", action="version", version=f"surelabel {__version__}")
    commands = made.add_subparsers(metavar="COMMAND", title="commands", parser_class=Parser)
    asked = next((word for word in words or () if not word.startswith("-")), None)
    if words is not None and asked is not None and asked not in COMMANDS:
        raise UserError(f"there is no command {asked!r}.{suggestion(asked, COMMANDS)}")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, usage=USAGE.get(name))
        if words is None or name == asked:
            module = import_module(f"surelabel.cli.{name}")
            command.description = str(module.__doc__).partition(": ")[2].strip()
            module.add_arguments(command)
            if name in NETWORKED:
                what = "download no pretrained network: use what is stored here"
                command.add_argument("--offline", action="store_true", help=what)
            command.set_defaults(run=module.run)
    return made


def _no_command(options: argparse.Namespace) -> int:
    parser([]).print_help()
    return 2


def in_options(error: UserError) -> str:
    """What an error says, with the options that mend it."""
    if not isinstance(error, FolderExists):
        return str(error)
    resume = f"resume that run with --resume {error.path}, " if error.begun else ""
    return f"{error.path} exists already: {resume}choose another --out, or remove it"


if __name__ == "__main__":
    sys.exit(main())
