"""What happens to a command that nobody listens to."""

import os
import subprocess
import sys

import pytest

from surelabel.cli.main import main

COMMANDS = [["fit", "--help-all"], ["--version"], ["methods"], ["fit", "--print-config"]]
CLI = [sys.executable, "-m", "surelabel.cli.main"]


@pytest.mark.parametrize("words", COMMANDS)
def test_closed_pipe_ends_a_command_in_silence_as_the_signal_would(words):
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run([*CLI, *words], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("words", COMMANDS)
def test_full_device_is_one_message_and_exit_code_2(words):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ended = subprocess.run([*CLI, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "surelabel: cannot write the standard output: No space left on device\n"


def test_error_that_cannot_be_told_keeps_its_exit_code():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        assert subprocess.run([*CLI, "nonsense"], stderr=full, check=False).returncode == 2


def test_closed_standard_output_is_no_error():
    ended = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *CLI, "methods"], stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_signs_that_the_terminal_lacks_are_written_all_the_same():
    ended = subprocess.run([*CLI, "fit", "é"], capture_output=True, env={"PYTHONIOENCODING": "ascii"}, check=False)
    assert ended.returncode == 2
    assert rb"\xe9" in ended.stderr


def test_message_does_not_obey_the_name_in_it(capsys):
    assert main(["fit", "\x1b[2J\u202egpj\r.png"]) == 2
    said = capsys.readouterr().err
    assert "\\x1b[2J\\u202egpj" in said
    assert said.strip().isprintable()
