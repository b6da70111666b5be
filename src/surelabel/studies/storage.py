"""The Optuna database of a study or a sweep, and locks that go with it."""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from surelabel.utils.errors import UserError, optional_import

if TYPE_CHECKING:
    import optuna

HEARTBEAT = 30  # seconds between two heartbeats of a sweep's trial
LOST_AFTER = 180  # seconds without contact until a worker counts as dead


class Locks:
    """Named locks of a storage, held until `close` or until the process ends, however it ends."""

    def __init__(self, url: str) -> None:
        self._held = ExitStack()
        self._folder = Path(f"{_file(url)}.locks") if url.startswith("sqlite") else None
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            return
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)
        self._held.callback(self._connection.close)
        # The server must notice when a machine is gone, and free its locks.
        for name, value in {"idle": LOST_AFTER // 3, "interval": LOST_AFTER // 6, "count": 4}.items():
            self._connection.execute(f"SET tcp_keepalives_{name} = {value}")

    def take(self, name: str, wait: bool = False) -> bool:
        """Take a lock, with `wait` when it is free; False if another holds it."""
        if self._folder is not None:
            try:
                self._held.enter_context(FileLock(self._folder / name, timeout=-1 if wait else 0))
            except Timeout:
                return False
            return True
        number = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True)
        if wait:
            self._connection.execute("SELECT pg_advisory_lock(%s)", [number])
            return True
        found = self._connection.execute("SELECT pg_try_advisory_lock(%s)", [number]).fetchone()
        return bool(found and found[0])

    def close(self) -> None:
        self._held.close()


@contextmanager
def exclusive(url: str) -> Iterator[None]:
    """Hold the lock of the whole storage."""
    with closing(Locks(url)) as locks:
        locks.take("all", wait=True)
        yield


def _file(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def open_storage(url: str) -> "optuna.storages.RDBStorage":
    """Optuna's storage at this URL. Errors do not show the password."""
    with optional_import("study", "a study"):
        import optuna
        import psycopg
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import SQLAlchemyError
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    kind, _, rest = url.partition(":")
    slashes = "///" if kind == "sqlite" else "//"
    if kind not in ("sqlite", "postgresql") or not rest.startswith(slashes):
        raise UserError(f"storage {kind}:...: write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME")
    engine: dict[str, Any] = {"pool_pre_ping": True}
    if kind == "sqlite":
        engine["connect_args"] = {"timeout": 120}
    driver = url if kind == "sqlite" else f"postgresql+psycopg:{rest}"
    try:
        shown = make_url(driver).render_as_string(hide_password=True)
    except (SQLAlchemyError, ValueError) as error:  # its message may hold the password
        raise UserError(
            f"storage {kind}:... is not a URL: write postgresql://USER:PASSWORD@HOST:PORT/NAME, with a number as PORT"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            if kind == "sqlite":
                _file(url).parent.mkdir(parents=True, exist_ok=True)
            with exclusive(url):  # two processes that create the tables at once would collide
                return optuna.storages.RDBStorage(driver, engine, heartbeat_interval=HEARTBEAT, grace_period=LOST_AFTER)
        except (SQLAlchemyError, psycopg.Error, OSError, RuntimeError) as error:
            raise UserError(f"cannot open the storage {shown}: {str(error).splitlines()[0]}") from error
