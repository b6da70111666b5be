import pytest

from surelabel.config.run import Network, RunConfig
from surelabel.config.settings import check_key, keys, read_run, read_yaml, with_settings, write_yaml
from surelabel.utils.errors import UserError


def test_config_can_be_written_and_read_back(tmp_path):
    config = RunConfig(labels="1%", network=Network("wrn-10-2", padding="circular"), out="x: y # z", threads=3)
    write_yaml(config, tmp_path / "config.yaml")
    assert read_run(tmp_path) == config


def test_with_settings_sets_by_dotted_name():
    assert {"method", "optimizer.lr", "views.weak", "evaluation.every"} <= set(keys())
    assert with_settings(RunConfig(), {"optimizer.lr": 0.5}).optimizer.lr == 0.5


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("optimzer.lr", None, r"no setting named 'optimzer\.lr'\. Did you mean 'optimizer\.lr'"),
        ("pixels", 64, "It is now called 'image_size'"),
        ("lr", None, r"Did you mean 'head\.lr' or 'optimizer\.lr'"),
        ("forward", "jiont", r"forward cannot be 'jiont'\. Did you mean 'joint'"),
    ],
)
def test_check_key_suggests_the_closest(key, value, message):
    with pytest.raises(UserError, match=message):
        check_key(key, value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": "9" * 5000}, "^steps must be a whole number, not '99.{,60}$"),
        ({"steps": "soon"}, "^steps must be a whole number, not 'soon'"),
        ({"optimizer": {"lr": "fast"}}, r"^optimizer\.lr must be a number, not 'fast'"),
        ({"optimizer": {"lrr": 0.1}}, r"'optimizer\.lrr'"),
        ({"views.strong": "week"}, "'weak'"),
    ],
)
def test_with_settings_rejects_bad_values(settings, message):
    with pytest.raises(UserError, match=message):
        with_settings(RunConfig(), settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\noptimizer:\n  lrr: 3\n", r"c\.yaml: there is no setting"),
        ("- 1\n", "must hold settings"),
        ("3: x\n", "must hold settings"),
        ("", "must hold settings"),
        ("seed: [", "not valid YAML"),
        ("seed: &a [*a]", "an alias"),
        ("#" * 10**5, "bytes"),
        ("seed: !!python/object/apply:os.getcwd []\n", "not valid YAML"),
        (None, "cannot read the config"),
    ],
)
def test_read_yaml_rejects_bad_files(tmp_path, text, message):
    path = tmp_path / "c.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_yaml(path)
