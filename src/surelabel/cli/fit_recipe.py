"""The options of `surelabel fit` that are not settings of the run: what they mean, and what they cannot be beside."""

from itertools import count
from pathlib import Path
from typing import Any

from surelabel.config.benchmarks import NAMED_DATA
from surelabel.config.encoders import DEFAULT, NGRAMS
from surelabel.config.methods import find
from surelabel.config.recipes import SIZES, embeddings, pictures, recipe, texts, trained_encoder
from surelabel.config.run import ARRAY_FILES, RunConfig
from surelabel.config.settings import CONFIG, read_run
from surelabel.utils.errors import UserError


def chosen_recipe(choice: dict[str, Any], asked: dict[str, Any], extra: dict[str, str]) -> RunConfig:
    """The recipe for these; for pictures that suit it one with a pretrained network, unless another is asked for.

    The default method for own data is sure, where there is a table, embeddings or such a network, else bam-uda.
    """
    data = choice.get("data", "phc")
    encoder = asked.get("encoder", "none")
    own = data not in NAMED_DATA
    if own and _are_texts(data, asked):
        return _of_texts(choice, asked.get("encoder", NGRAMS), extra)
    if asked.get("train_encoder"):
        if "size" in extra:
            raise UserError("--size chooses the size of a network, and encoder is one: leave --size out")
        named = {"method": "bam-uda" if own else RunConfig.method, "data": data, "labels": "all" if own else "10%"}
        return trained_encoder(**(named | choice), encoder=DEFAULT if encoder == "none" else encoder)
    free = "size" not in extra and asked.get("network.name", "members-").startswith("members-")
    if encoder == "none" and own and free and "encoder" not in asked and Path(data).is_dir():
        from surelabel.data.probe import looks_photographic

        if find(choice.get("method", "sure")).family != "paws" and looks_photographic(data):
            encoder = DEFAULT
    rows = False
    if own:
        if encoder == "none" and data.endswith(ARRAY_FILES):
            from surelabel.data.arrays.files import holds_embeddings, suits_encoder

            file = Path(asked.get("data_dir") or ".", data)
            rows = holds_embeddings(file)
            # Another method that is asked for learns from the pixels, unless an encoder is asked for too.
            if free and "encoder" not in asked and choice.get("method", "sure") == "sure" and suits_encoder(file):
                encoder = DEFAULT
        suits = free and (encoder != "none" or rows or RunConfig(data=data).tabular)
        choice = {"method": "sure" if suits else "bam-uda", "labels": "all"} | choice
    if rows:
        if "size" in extra:
            raise UserError("the paper has no embeddings: leave --size out")
        return embeddings(**choice)
    if encoder == "none":
        return recipe(**choice, size=extra.get("size", SIZES[0]))
    if "size" in extra:
        raise UserError("--size chooses the size of a network, and encoder is one: leave --size out")
    return pictures(
        **({"method": RunConfig.method, "data": data, "labels": RunConfig.labels} | choice), encoder=encoder
    )


def _are_texts(data: str, asked: dict[str, Any]) -> bool:
    if Path(data).is_dir():
        from surelabel.data.probe import holds_texts

        return holds_texts(data)
    return RunConfig(data=data, text_column=asked.get("text_column")).of_texts


def _of_texts(choice: dict[str, Any], encoder: str, extra: dict[str, str]) -> RunConfig:
    if "size" in extra:
        raise UserError("the paper has no texts: leave --size out")
    return texts(**({"method": "sure", "labels": "all"} | choice), encoder=encoder)


def check_together(given: dict[str, Any], extra: dict[str, str]) -> None:
    """What the options that are not settings cannot be together with."""
    rules = [
        ("minutes", given, ("steps",)),
        ("minutes", extra, ("resume",)),
        ("from", extra, ("config", "recipe", "size", "resume")),
        ("from", given, ("data", "method")),
    ]
    for key, where, others in rules:
        for other in others:
            if key in extra and other in where:
                raise UserError(f"--{key} and --{other} do not go together: leave one out")
    if "from" in extra and not RunConfig(labels=given.get("labels", "")).label_files:
        raise UserError("--from RUN trains again with more labels: name a .csv file that has them by --labels")


def check_beside(config: RunConfig, extra: dict[str, str]) -> None:
    """The same, of settings that a file or an earlier run may have brought."""
    if "minutes" in extra and config.processes > 1:
        raise UserError(
            f"--minutes is for one process, and this run has {config.processes}: add --devices 1 --nodes 1, or leave "
            "it out"
        )
    if "crossfit" in extra:
        from surelabel.training.fit import check_crossfit

        check_crossfit(config, number_of(extra, "crossfit", 2))
    if "accept" in extra and config.method != "sure" and "crossfit" not in extra:
        from surelabel.training.run_folder import RunFolder

        if RunFolder(config.folder).crossfit is None:
            raise UserError(f"--accept: {config.method} leaves no labels out to judge it by. Add --crossfit 5")
    if "sets" in extra and config.method != "sure":
        raise UserError(f"--sets is for method sure, and this is {config.method}: leave it out")
    if "sets" in extra and config.data in NAMED_DATA:
        raise UserError(f"--sets is for data of your own: every sample of {config.data} has a label. Leave it out")
    if "all_probabilities" in extra and config.data in NAMED_DATA:
        raise UserError(f"--all-probabilities is of predictions.csv, which a run on {config.data} does not write")


def number_of(extra: dict[str, str], key: str, least: float, below: float = float("inf")) -> Any:
    """The number that this option gives, if it is given: a whole one where the least is."""
    if key not in extra:
        return None
    kind = type(least)
    try:
        number = kind(extra[key])
    except ValueError:
        number = kind(-1)
    if not least <= number < below:
        end = "" if below == float("inf") else f", below {below:g}"
        raise UserError(f"--{key} {extra[key]}: give {'a whole' if kind is int else 'a'} number from {least:g}{end}")
    return number


def from_run(given: dict[str, Any], extra: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings of an earlier run, and its labels and the new ones together."""
    folder = Path(extra["from"])
    config = read_folder(folder, "--from")
    inside = Path(config.data, "labels.csv")
    earlier = config.label_files or ((str(inside),) if inside.is_file() else ())
    if not earlier and not (config.data.endswith(ARRAY_FILES) or (config.has_columns and config.labels == "all")):
        raise UserError(
            f"{folder} took its labels from {config.data} itself: --from is for arrays, for folders of pictures whose "
            "classes a .csv file names, and for tables of which all labels are used. Add the new labels there, and fit "
            "again without --from"
        )
    rest = {key: value for key, value in extra.items() if key != "from"}
    out = next(name for number in count(2) if not Path(name := f"{str(folder).rstrip('/')}-{number}").exists())
    labels = ",".join((*earlier, given["labels"]))
    return {"out": out} | given | {"labels": labels}, rest | {"config": str(folder / CONFIG)}


def read_folder(folder: str | Path, option: str) -> RunConfig:
    """The config of the run folder that an option names."""
    if not (Path(folder) / CONFIG).is_file():
        raise UserError(f"{option} {folder} is not a run folder: it has no {CONFIG}")
    return read_run(folder)
