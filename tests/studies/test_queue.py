import multiprocessing

import pytest

from surelabel.studies.queue import MAX_LOST, Queue
from surelabel.studies.storage import open_storage
from surelabel.utils.errors import UserError
from tests.conftest import PATIENCE

RECORD = {"final": {"accuracy": 0.5}, "words": "µ ≤ 1"}
KEYS = [f"run-{number}" for number in range(12)]


def finish(queue, claim):
    queue.finish(claim, RECORD)
    claim.lock.close()


def release(queue, claim, error=None):
    queue.release(claim, error)
    claim.lock.close()


@pytest.mark.slow
def test_claim_takes_each_run_once(storage):
    queue, other = Queue(storage), Queue(storage)
    queue.add(["a", "b"])
    other.add(["a", "b", "c"])
    claims = [one.claim(["a", "b", "c"], {}) for one in (queue, other, queue)]
    assert [claim.key for claim in claims] == ["a", "b", "c"]
    assert other.claim(["a", "b", "c"], {}) is None
    finish(queue, claims[0])
    queue.add(["a"])
    status = other.status("abc")
    assert (status.waiting, status.running, status.complete) == ([], ["b", "c"], {"a": RECORD})
    assert queue.claim(["a"], {}) is None


@pytest.mark.slow
def test_claim_takes_only_the_given_runs_in_order(storage):
    queue = Queue(storage)
    queue.add(["a", "b", "c"])
    claims = [queue.claim(["c", "b"], {}) for _ in range(3)]
    assert [claim and claim.key for claim in claims] == ["c", "b", None]


def test_claim_waits_for_the_run_that_comes_before(storage):
    queue = Queue(storage)
    queue.add(["base", "head"])
    after = {"head": "base"}
    base = queue.claim(["head", "base"], after)
    assert base.key == "base"
    assert queue.claim(["head"], after) is None
    finish(queue, base)
    assert queue.claim(["head"], after).key == "head"


def test_release_requeues_a_run_and_a_failed_one_when_added(storage):
    queue = Queue(storage)
    queue.add(["a"])
    release(queue, queue.claim(["a"], {}))
    release(queue, queue.claim(["a"], {}), "the loss became nan")
    assert queue.status(["a"]).failed == {"a": "the loss became nan"}
    assert queue.claim(["a"], {}) is None
    queue.add(["a"])
    assert queue.claim(["a"], {}).key == "a"


def test_claim_takes_the_run_of_a_dead_worker_only(storage):
    queue = Queue(storage)
    queue.add(["lives", "dead"])
    lives, dead = queue.claim(["lives"], {}), queue.claim(["dead"], {})
    assert Queue(storage).claim(["lives", "dead"], {}) is None
    dead.lock.close()  # as the end of its process does
    again = Queue(storage).claim(["lives", "dead"], {})
    assert again.key == "dead"
    # It had only lost its connection: its failure no longer matters, but its result counts.
    finish(queue, again)
    queue.release(dead, "the loss became nan")
    queue.finish(dead, RECORD)
    status = queue.status(["lives", "dead"])
    assert (status.running, status.complete, status.failed) == ([lives.key], {"dead": RECORD}, {})


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["postgresql"], indirect=True)
def test_queue_survives_the_loss_of_all_connections(storage):
    """As a restart of the server does: the lock is free then, but the result counts."""
    import psycopg

    queue, other = Queue(storage), Queue(storage)
    queue.add(["a"])
    claim = queue.claim(["a"], {})
    with psycopg.connect(storage, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    again = other.claim(["a"], {})
    assert again.key == "a"
    finish(queue, claim)
    release(other, again, "too late")
    assert other.status(["a"]).complete == {"a": RECORD}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["claim", "finish"])
def test_queue_retries_if_the_storage_does_not_answer(storage, method, monkeypatch, capsys):
    from sqlalchemy.exc import OperationalError

    monkeypatch.setattr("surelabel.studies.queue.PAUSES", (0, 0))
    queue = Queue(storage)
    queue.add(["a"])
    set_state, failures = queue.storage.set_trial_state_values, [2]

    def unreachable(*given):
        if failures[0]:
            failures[0] -= 1
            raise OperationalError("the server is starting up", None, OSError())
        return set_state(*given)

    if method == "claim":
        monkeypatch.setattr(queue.storage, "set_trial_state_values", unreachable)
    claim = queue.claim(["a"], {})
    monkeypatch.setattr(queue.storage, "set_trial_state_values", unreachable)
    finish(queue, claim)
    assert queue.status(["a"]).complete == {"a": RECORD}
    assert "does not answer" in capsys.readouterr().out
    failures[0] = 3
    queue.add(["b"])
    with pytest.raises(UserError, match="the same command resumes"):
        queue.claim(["b"], {})


def test_claim_gives_up_a_run_at_which_workers_die(storage):
    """It may need more memory than there is: the other runs must be done before all workers are dead."""
    queue = Queue(storage)
    queue.add(["greedy", "other"])
    for _ in range(2):
        for _ in range(MAX_LOST):
            claim = queue.claim(["greedy", "other"], {})
            assert claim.key == "greedy"
            claim.lock.close()
        other = queue.claim(["greedy", "other"], {})
        assert other.key == "other"
        assert "workers died" in queue.status(["greedy"]).failed["greedy"]
        release(queue, other)
        queue.add(["greedy"])


def test_offer_stores_a_finished_run_once(storage):
    queue = Queue(storage)
    queue.add(["a"])
    queue.offer({"a": RECORD, "b": RECORD})
    queue.offer({"a": RECORD, "b": RECORD})
    assert queue.status("ab").complete == {"a": RECORD, "b": RECORD}
    assert len(queue.study.trials) == 3
    assert queue.claim(["a", "b"], {}) is None


def _claim_all(url, start, taken):
    start.wait()
    queue = Queue(url)
    queue.add(KEYS)
    while (claim := queue.claim(KEYS, {})) is not None:
        taken.put(claim.key)
        finish(queue, claim)
    taken.put(None)


@pytest.mark.slow
def test_processes_that_add_and_claim_at_once_share_the_runs(storage):
    context = multiprocessing.get_context("spawn")
    start, taken = context.Barrier(3), context.Queue()
    workers = [context.Process(target=_claim_all, args=(storage, start, taken)) for _ in range(3)]
    for worker in workers:
        worker.start()
    found = []
    while found.count(None) < 3:
        found.append(taken.get(timeout=PATIENCE))
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sorted(key for key in found if key) == sorted(KEYS)
    assert len(Queue(storage).study.trials) == len(KEYS)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host/name", "write sqlite:///FILE or postgresql://"),
        ("study.db", "write sqlite:///FILE"),
        ("postgresql://me:secret@127.0.0.1:1/none", "cannot open the storage postgresql"),
        ("sqlite:////proc/none/study.db", "cannot open"),
        ("sqlite://x.db", "write sqlite:///FILE"),
        ("postgresql://me:secret@host:abc/db", "number as PORT"),
    ],
)
def test_open_storage_names_its_error_without_the_password(url, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message) as error:
        open_storage(url)
    assert "secret" not in str(error.value)
    assert not list(tmp_path.iterdir())
