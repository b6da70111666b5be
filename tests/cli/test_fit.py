import dataclasses

import numpy as np
import pytest

from surelabel.cli.main import main
from surelabel.config.encoders import DEFAULT
from surelabel.config.recipes import recipe
from surelabel.config.run import RunConfig
from surelabel.config.settings import flatten, write_yaml
from surelabel.utils.errors import UserError
from tests.helpers.cli import fit_options, parse


def test_parser_takes_dashes_and_underscores_and_equals_signs():
    assert parse("fit --data-dir x --seed=3") == parse("fit --data_dir=x --seed 3")


def test_fit_options_override_the_file_and_it_the_recipe(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("steps: 77\noptimizer:\n  lr: 0.5\n  momentum: 0.8\n")
    run = fit_options(["--recipe", "uda-cifar10-250", "--config", str(config), "--optimizer.lr", "0.25"]).config
    assert (run.method, run.data, run.labels) == ("uda", "cifar10", 250)
    assert (run.steps, run.optimizer.lr, run.optimizer.momentum) == (77, 0.25, 0.8)
    assert run.batch.ratio == 7


def test_fit_chooses_the_recipe_by_method_and_data(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("method: pseudo-label\ndata: cifar10\nlabels: 250\n")
    assert fit_options(["--config", str(config)]).config.batch.ratio == 1
    assert fit_options(["--config", str(config), "--method", "uda"]).config.batch.ratio == 7
    assert fit_options([]).config.network.padding == "circular"
    assert fit_options(["--size", "paper"]).config.network.name == "wrn-28-2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stepps", "3"], "Did you mean 'steps'"),
        (["--recipee", "x"], "Did you mean --recipe"),
        (["--steps"], "--steps needs a value"),
        (["--steps", "--seed", "3"], "--steps needs a value"),
        (["--data", "wine.tsv", "--label-column", "y"], ".csv, .parquet or .jsonl files, and wine.tsv is none"),
        (["--method", "supervised", "--weight", "2"], "--weight has no effect on this run"),
        (["--method", "pseudo-label", "--views.strong", "weak"], "--views.strong has no effect"),
        (["--forward", "joint", "--weak-norm", "batch"], "--weak-norm has no effect"),
        (["--method", "uda", "--calibration.dropout", "0.2"], "--calibration.dropout has no effect"),
        (["--calibrator", "mixup", "--calibration.members", "4"], "--calibration.members has no effect"),
        (["--method", "bam-uda", "--calibrator", "mc-dropout", "--head.samples", "9"], "--head.samples has no effect"),
        (["--calibrator", "mc-dropout", "--calibration.dropout", "1"], "must be at least 0 and below 1"),
        (["--calibrator", "mc-dropout", "--calibration.samples", "1"], "must be at least 2"),
        (["--calibrator", "dropout"], "Did you mean 'mc-dropout'"),
        (["--method", "bam-uda", "--calibrator", "laplace"], "choose the method without bam-"),
        (["--method", "paws", "--calibrator", "mixup"], "cannot be combined with paws"),
        (["--method", "bam-paws+ema", "--calibrator", "laplace"], r"cannot be combined with bam-paws\+ema"),
        (["--method", "sure", "--calibrator", "mixup"], "cannot be combined with sure"),
        (["--method", "finessl-margin", "--calibrator", "mixup"], "cannot be combined with finessl-margin"),
        (["--method", "adamatch", "--calibrator", "mixup"], "cannot be combined with adamatch"),
        (
            [
                "--method",
                "uda",
                "--calibrator",
                "mixup",
                "--align.rule",
                "mean",
                "--align.prior",
                "labelled-predictions",
            ],
            "cannot be combined with uda",
        ),
        (["--method", "paws", "--batch.labelled", "4"], "--batch.labelled has no effect"),
        (["--method", "paws", "--selection.quantile", "0.4"], "--selection.quantile has no effect"),
        (["--method", "paws", "--average.decay", "0.4"], "--average.decay has no effect"),
        (["--method", "paws", "--head.samples", "4"], "--head.samples has no effect"),
        (["--method", "bam-paws", "--head.lr", "0.4"], "--head.lr has no effect"),
        (["--method", "uda", "--paws.small_crops", "4"], "--paws.small-crops has no effect"),
        (["--method", "uda", "--teacher.gamma", "0.4"], "--teacher.gamma has no effect"),
        (["--method", "uda+swa", "--teacher.gamma", "0.4"], "--teacher.gamma has no effect"),
        (["--method", "uda+ema", "--teacher.onset", "0.4"], "--teacher.onset has no effect"),
        (["--method", "uda+ema", "--forward", "joint"], "--forward has no effect"),
        (["--method", "uda", "--optimizer.warmup", "4"], "--optimizer.warmup has no effect"),
        (["--method", "uda+ema", "--teacher.warmup", "0.4"], "--teacher.warmup has no effect"),
        (["--method", "paws", "--paws.large_scale", "0.4"], "--paws.large-scale has no effect"),
        (["--method", "paws", "--fidelity", "released"], "--fidelity has no effect"),
        (["--network.norm", "group", "--network.norm_momentum", "0.5"], "--network.norm-momentum has no effect"),
        (["--network.name", "efficientnet-lite0", "--network.norm", "group"], "--network.norm has no effect"),
        (["--network.name", "efficientnet-lite0", "--network.stem_stride", "2"], "--network.stem-stride has no effect"),
        (["--encoder", "efficientnet-lite0", "--table.ignored", "a"], "--table.ignored has no effect"),
        (["--method", "uda", "--drawn", "random"], "--drawn has no effect"),
        (["--encoder", "efficientnet-lite0", "--size", "paper"], "leave --size out"),
        (["--method", "uda+emo"], r"Did you mean 'uda\+ema'"),
        (["--method", "paws+"], r"Did you mean 'paws"),
        (["stepps"], "there is no file or folder 'stepps'"),
        (["cifar11"], "Did you mean 'cifar10'"),
        (["phc", "steps"], "one argument too many"),
        (["phc", "--data", "cifar10"], "given twice"),
        (["phc", "--all-probabilities"], "which a run on phc does not write"),
        (["--seed", "1", "--seed", "2"], "given twice"),
        (["--seed", "one"], "seed must be a whole number"),
        (["--data", ""], "data is empty"),
        ([""], "data is empty"),
        (["--views.weak", "week"], "Did you mean 'weak'"),
        (["--method", "fixmtach"], "Did you mean 'fixmatch'"),
        (["--size", "huge"], "no size 'huge'"),
        (["--resume", "nowhere"], "not a run folder"),
        (["--resume", "nowhere", "--steps", "3"], "cannot change --steps: the learning rate falls along a cosine"),
        (["--resume", "nowhere", "--seed", "3"], "leave the other options out"),
        (["--resume", "nowhere", "--size", "paper"], "leave the other options out"),
    ],
)
def test_fit_options_name_a_mistake(arguments, message):
    with pytest.raises(UserError, match=message):
        fit_options(arguments)


@pytest.mark.parametrize(
    ("stored", "asked", "message"),
    [
        ("devices: 2", "--minutes", "--minutes is for one process, and this run has 2"),
        ("nodes: 2", "--crossfit", "crossfit: it is for one process, and this run has 2"),
        ("holdout: 20%", "--crossfit", "crossfit: it tests on each label, and holdout on some"),
        ("init: some/run", "--crossfit", "crossfit: the run in init may have learnt"),
        ("method: sure", "--crossfit", "sure has left each label out already"),
    ],
)
def test_fit_rejects_options_that_contradict_the_file(stored, asked, message, tmp_path):
    (tmp_path / "c.yaml").write_text(stored)
    with pytest.raises(UserError, match=message):
        fit_options(["--config", str(tmp_path / "c.yaml"), asked, "5"])


def test_fit_with_an_encoder_keeps_method_and_labels():
    run = fit_options(["--data", "cifar10", "--encoder", "efficientnet-lite0"]).config
    assert (run.method, run.labels) == (recipe().method, recipe().labels)


def test_print_config_gives_a_file_that_reads_back(tmp_path, capsys):
    assert main(["fit", "--method", "uda", "--seed", "5", "--print_config"]) == 0
    printed = tmp_path / "c.yaml"
    printed.write_text(capsys.readouterr().out)
    assert fit_options(["--config", str(printed)]).config == fit_options(["--method", "uda", "--seed", "5"]).config


def test_resume_auto_goes_on_only_where_there_is_a_run(tmp_path):
    arguments = ["--out", str(tmp_path / "run"), "--resume", "auto"]
    assert not fit_options(arguments).resume
    write_yaml(fit_options(arguments).config, tmp_path / "run" / "config.yaml")
    assert fit_options(arguments).resume


def test_fit_with_another_method_drops_the_files_constants(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("method: uda\nselection:\n  threshold: 0.8\ntarget:\n  temperature: 0.4\noptimizer:\n  lr: 0.5\n")
    same, other = (fit_options(["--config", str(config), *more]).config for more in ([], ["--method", "fixmatch"]))
    assert (same.selection.threshold, other.selection.threshold) == (0.8, None)
    assert (same.target.temperature, other.target.temperature) == (0.4, None)
    assert same.optimizer.lr == other.optimizer.lr == 0.5


def test_resume_prints_and_takes_the_settings_of_the_run(tmp_path, capsys):
    write_yaml(RunConfig(seed=7, steps=77), tmp_path / "config.yaml")
    options = fit_options(["--resume", str(tmp_path)])
    assert options.resume
    assert (options.config.seed, options.config.steps, options.config.folder) == (7, 77, tmp_path)
    assert main(["fit", "--resume", str(tmp_path), "--print_config"]) == 0
    assert "seed: 7" in capsys.readouterr().out


def test_fidelity_released_sets_each_point():
    arguments = ["--method", "bam-uda", "--fidelity", "released"]
    released = fit_options(arguments).config
    assert (released.selection.statistic, released.selection.lagged, released.head.kl) == ("std", True, "mean")
    assert (released.target.sharpen_samples, released.selection.sharpened, released.forward) == (True, True, "joint")
    own = fit_options([*arguments, "--head.kl", "elbo"]).config
    assert (own.head.kl, own.selection.statistic) == ("elbo", "std")
    paper = fit_options(["--method", "bam-uda"]).config
    assert (paper.selection.statistic, paper.selection.lagged, paper.head.kl) == ("variance", False, "elbo")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--method", "paws", "--paws.temperature", "0.03", "--target.temperature", "0.5", "--paws.me_max", "false"],
        ["--method", "bam-paws+ema", "--head.samples", "4", "--head.kl_warmup", "0.9", "--teacher.schedule", "cosine"],
        ["--method", "paws+swa", "--data", "cifar10", "--teacher.onset", "0.5", "--paws.small_crops", "1"],
        ["--method", "uda+ema", "--average.buffers", "copy", "--weak_norm", "batch-kept"],
        ["--method", "supervised+swa", "--teacher.onset", "0.5"],
        ["--method", "fixmatch+ema", "--fidelity", "released", "--weak_norm", "batch-kept"],
    ],
)
def test_fit_sets_what_a_method_reads(arguments):
    stored = flatten(dataclasses.asdict(fit_options(arguments).config))
    for option, value in zip(arguments[::2], arguments[1::2], strict=True):
        assert str(stored[option[2:]]).lower() == value


def test_fit_uses_all_labels_of_own_data(tmp_path):
    options = fit_options([str(tmp_path), "--steps", "7"])
    assert (options.config.data, options.config.labels, options.config.method) == (str(tmp_path), "all", "bam-uda")
    table = fit_options([str(tmp_path), "--labels", "some/labels.csv", "--method", "fixmatch"])
    assert (table.config.label_files, table.config.method) == (("some/labels.csv",), "fixmatch")
    assert table.config.folder.name == f"fixmatch-{tmp_path.name}-labels-seed0"


@pytest.mark.parametrize(
    ("shape", "kind", "options", "method", "encoder"),
    [
        ((9, 28, 28), np.uint8, [], "sure", DEFAULT),
        ((9, 3, 30, 40), np.uint8, [], "sure", DEFAULT),
        ((9, 30, 40, 3), np.uint8, ["--method", "sure"], "sure", DEFAULT),
        ((9, 27, 40, 3), np.uint8, [], "bam-uda", "none"),
        ((9, 28, 28), np.float32, [], "bam-uda", "none"),
        ((9, 28, 28), np.uint8, ["--encoder", "none"], "bam-uda", "none"),
        ((9, 28, 28), np.uint8, ["--method", "uda"], "uda", "none"),
        ((9, 28, 28), np.uint8, ["--method", "uda", "--encoder", DEFAULT], "uda", DEFAULT),
        ((9, 28, 28), np.uint8, ["--size", "laptop"], "bam-uda", "none"),
    ],
)
def test_fit_describes_images_in_arrays_where_that_suits_them(
    shape, kind, options, method, encoder, tmp_path, monkeypatch
):
    monkeypatch.setattr("surelabel.data.probe.missing", lambda name: None)
    np.save(tmp_path / "images.npy", np.zeros(shape, kind))
    np.savez(tmp_path / "images.npz", images=np.zeros(shape, kind))
    for name in ("images.npy", "images.npz"):
        config = fit_options([str(tmp_path / name), *options]).config
        assert (config.method, config.encoder) == (method, encoder)


def test_fit_takes_embeddings_in_arrays_for_what_they_are(tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.zeros((9, 4), np.float16))
    np.savez(tmp_path / "images.npz", X=np.zeros((9, 8, 8), np.uint8))
    config = fit_options([str(tmp_path / "rows.npz")]).config
    assert (config.method, config.labels, config.sure.project) == ("sure", "all", True)
    other = fit_options([str(tmp_path / "rows.npz"), "--method", "uda", "--table.noise", "0.1"]).config
    assert (other.network.name, other.views.strong) == ("mlp-2-128", "corrupt")
    assert fit_options([str(tmp_path / "images.npz")]).config.method == "bam-uda"
    with pytest.raises(UserError, match="leave --size out"):
        fit_options([str(tmp_path / "rows.npz"), "--size", "paper"])
