import subprocess
import sys

import pytest

from surelabel.cli.main import COMMANDS, main
from surelabel.config.settings import keys


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["recipes"], ["--version"]])
def test_help_does_not_import_torch(arguments):
    program = "import sys; from surelabel.cli.main import main; "
    program += f"code = main({arguments!r}); print('torch' in sys.modules, code)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == "False 0"


def test_help_of_fit_begins_with_how_to_begin_and_names_every_setting_as_it_is_written(capsys):
    assert main(["fit", "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: surelabel fit [DATA] [--OPTION VALUE ...]")
    assert [key for key, _ in keys() if f"--{key.replace('_', '-')} " not in said] == []
    assert "SUPPRESS" not in said
    assert "%(default)s" not in said


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fti"], "there is no command 'fti'. Did you mean 'fit'?"),
        (["fit", "--stepps", "3"], "Did you mean 'steps'?"),
        (["fit", "--data", "cifra10"], "Did you mean 'cifar10'?"),
        (["evaluate", "nowhere"], "nowhere is not a run folder"),
        (["evaluate", "nowhere", "phc"], "nowhere is not a run folder"),
        (["evaluate", "nowhere", "phc", "--bound"], "--bound is of the run's own test set: leave DATA out"),
        (["evaluate", "nowhere", "--data-dir", "x"], "--data-dir is of the DATA to evaluate on"),
        (["fit", "phc", "--out", f"{__file__}/run"], "test_main.py/run: Not a directory. Choose another folder"),
        (["predict", "nowhere", "phc", "-o", "x.csv"], "nowhere is not a run folder"),
        (["predict", "nowhere", "phc", "-o", "x.csv", "--calibrate", "test:9"], "nowhere is not a run folder"),
        (["suggest", "nowhere"], "nowhere is not a run folder"),
        (["export", "nowhere", "--onnx", "x.onnx"], "nowhere is not a run folder"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("surelabel: ")
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_whole_session_at_the_command_line(tiny, tmp_path, capsys):
    from surelabel.config.settings import to_yaml

    config = tmp_path / "run.yaml"
    config.write_text(to_yaml(tiny))
    assert main(["fit", "--config", str(config)]) == 0
    said = capsys.readouterr().out
    assert "accuracy" in said
    assert f"The run is in {tiny.folder}" in said
    assert main(["evaluate", str(tiny.folder)]) == 0
    assert "On 397 test samples" in capsys.readouterr().out
    assert main(["evaluate", str(tiny.folder), tiny.data]) == 0
    assert f"On 397 labelled samples of {tiny.data}\n" in capsys.readouterr().out
    assert main(["predict", str(tiny.folder), tiny.data, "-o", str(tmp_path / "out.csv")]) == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1 + 397
    assert main(["suggest", str(tiny.folder), "-n", "5", "-o", str(tmp_path / "suggest.csv")]) == 0
    assert "5 samples to label next" in capsys.readouterr().out
    assert len((tmp_path / "suggest.csv").read_text().splitlines()) == 1 + 5
