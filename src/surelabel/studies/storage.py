"""The database of a study or a sweep: how it is opened, and how one worker alone is at work on it."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from surelabel.utils.errors import UserError, optional_import

if TYPE_CHECKING:
    import optuna

LOCK_NUMBER = 7_236_511  # any number, the same everywhere, for PostgreSQL's advisory lock


@contextmanager
def exclusive(url: str) -> Iterator[None]:
    """Within this block no other worker on this storage, here or elsewhere, is in such a block."""
    if url.startswith("sqlite"):
        with FileLock(f"{_file(url)}.lock"):
            yield
        return
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:  # whose end, however it comes, gives the lock back
        connection.execute("SELECT pg_advisory_lock(%s)", [LOCK_NUMBER])
        yield


def _file(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def open_storage(url: str, heartbeat: int | None = None, lost_after: int | None = None) -> "optuna.storages.RDBStorage":
    """Optuna's storage at this URL; what is wrong with it is told without its password."""
    with optional_import("study", "a study"):
        import optuna
        import psycopg
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import SQLAlchemyError
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    kind, _, rest = url.partition(":")
    slashes = "///" if kind == "sqlite" else "//"
    if kind not in ("sqlite", "postgresql") or not rest.startswith(slashes):
        raise UserError(f"--storage {kind}:...: it can be sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME")
    engine: dict[str, Any] = {"pool_pre_ping": True}
    if kind == "sqlite":
        engine["connect_args"] = {"timeout": 120}
    driver = url if kind == "sqlite" else f"postgresql+psycopg:{rest}"
    try:
        shown = make_url(driver).render_as_string(hide_password=True)
    except (SQLAlchemyError, ValueError) as error:  # whose words may hold the password
        raise UserError(
            f"--storage {kind}:... is no URL: write postgresql://USER:PASSWORD@HOST:PORT/NAME, PORT a number"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            if kind == "sqlite":
                _file(url).parent.mkdir(parents=True, exist_ok=True)
            with exclusive(url):  # two that make the tables at the same time would get in each other's way
                return optuna.storages.RDBStorage(driver, engine, heartbeat_interval=heartbeat, grace_period=lost_after)
        except (SQLAlchemyError, psycopg.Error, OSError, RuntimeError) as error:
            raise UserError(f"cannot open the storage {shown}: {str(error).splitlines()[0]}") from error
