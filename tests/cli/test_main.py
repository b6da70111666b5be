import subprocess
import sys

import pytest

from surelabel.cli.main import COMMANDS, main
from surelabel.config.settings import keys


@pytest.mark.parametrize(
    "arguments", [["--help"], ["fit", "--help"], ["study", "--help"], ["sweep", "--help"], ["recipes"], ["--version"]]
)
def test_help_does_not_import_torch(arguments):
    program = "import sys; from surelabel.cli.main import main; "
    program += f"import atexit; atexit.register(lambda: print('torch' in sys.modules)); sys.exit(main({arguments!r}))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == "False"


def help_of(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 0
    return capsys.readouterr().out


def test_help_of_fit_has_two_screens_and_help_all_every_setting(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    said = help_of(["fit", "--help"], capsys)
    assert said.startswith("usage: surelabel fit [DATA] [--OPTION VALUE ...]")
    assert len(said.splitlines()) < 80
    whole = help_of(["fit", "--help-all"], capsys)
    assert [key for key in keys() if f"--{key.replace('_', '-')} " not in whole] == []
    assert "SUPPRESS" not in whole


def test_completion_knows_commands_and_settings(capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert "--optimizer.lr" in script
    assert all(name in script for name in COMMANDS)
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_help_names_every_command(capsys):
    said = help_of(["--help"], capsys)
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
def test_main_prints_a_mistake_as_one_line_with_exit_code_2(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("surelabel: ")
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_main_fits_evaluates_predicts_and_suggests(tiny, tmp_path, capsys):
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
