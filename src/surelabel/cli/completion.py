"""surelabel completion: Print a script that completes commands and options: eval "$(surelabel completion bash)"."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="your shell")


def run(options: argparse.Namespace) -> int:
    import shtab

    from surelabel.cli.main import parser

    print(shtab.complete(parser(), options.shell))
    return 0
