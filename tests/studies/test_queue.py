import multiprocessing
import threading

import pytest

from surelabel.studies.queue import BEAT, MOST_LOST, Queue
from surelabel.studies.storage import open_storage
from surelabel.utils.errors import UserError
from tests.conftest import PATIENCE

RECORD = {"final": {"accuracy": 0.5}, "words": "µ ≤ 1"}
KEYS = [f"run-{number}" for number in range(12)]


def test_a_run_is_claimed_once_done_once_and_never_added_again(storage):
    queue, other = Queue(storage), Queue(storage)
    queue.add(["a", "b"])
    other.add(["a", "b", "c"])
    claims = [one.claim(["a", "b", "c"], {}) for one in (queue, other, queue)]
    assert [claim.key for claim in claims] == ["a", "b", "c"]
    assert other.claim(["a", "b", "c"], {}) is None
    queue.finish(claims[0], RECORD)
    queue.add(["a"])
    assert other.records(["a", "b"]) == {"a": RECORD}
    assert other.counts("abc") == {"waiting": [], "running": ["b", "c"], "complete": ["a"], "fail": []}
    assert queue.claim(["a"], {}) is None


def test_only_the_runs_asked_for_are_claimed_in_the_order_asked_for(storage):
    queue = Queue(storage)
    queue.add(["a", "b", "c"])
    assert queue.claim(["c", "b"], {}).key == "c"
    assert queue.claim(["c", "b"], {}).key == "b"
    assert queue.claim(["c", "b"], {}) is None


def test_a_run_waits_for_the_one_that_it_needs(storage):
    queue = Queue(storage)
    queue.add(["base", "head"])
    after = {"head": "base"}
    base = queue.claim(["head", "base"], after)
    assert base.key == "base"
    assert queue.claim(["head"], after) is None
    queue.finish(base, RECORD)
    assert queue.claim(["head"], after).key == "head"


def test_a_released_run_waits_again_and_a_failed_one_until_it_is_asked_for(storage):
    queue = Queue(storage)
    queue.add(["a"])
    queue.release(queue.claim(["a"], {}))
    queue.fail(queue.claim(["a"], {}), "the loss became nan")
    assert queue.errors(["a"]) == {"a": "the loss became nan"}
    assert queue.claim(["a"], {}) is None
    queue.add(["a"])
    assert queue.claim(["a"], {}).key == "a"


def test_a_run_whose_worker_is_gone_is_claimed_again_but_not_one_whose_worker_lives(storage):
    queue = Queue(storage, lost_after=600)
    queue.add(["lives", "gone"])
    lives, gone = queue.claim(["lives"], {}), queue.claim(["gone"], {})
    with queue.alive(lives):
        assert Queue(storage, lost_after=600).claim(["lives", "gone"], {}) is None
        silence(storage, gone)
        again = Queue(storage, lost_after=600).claim(["lives", "gone"], {})
        assert again.key == "gone"
        assert again.trial != gone.trial
        # The worker was only slow: that it failed is no matter any more, but what it finished counts.
        queue.fail(gone, "the loss became nan")
        assert queue.errors(["gone"]) == {}
        queue.finish(gone, RECORD)
    assert queue.counts(["lives", "gone"])["complete"] == ["gone"]
    assert queue.counts(["lives", "gone"])["running"] == ["lives"]


def test_a_run_of_another_study_whose_worker_is_gone_waits_again_and_has_no_error(storage):
    queue = Queue(storage, lost_after=600)
    queue.add(["ours", "theirs"])
    silence(storage, queue.claim(["theirs"], {}))
    assert queue.claim(["ours"], {}).key == "ours"
    assert queue.errors(["theirs"]) == {}
    assert queue.counts(["theirs"])["waiting"] == ["theirs"]


@pytest.mark.parametrize("method", ["claim", "finish"])
def test_a_storage_out_of_reach_is_asked_again_and_that_is_said(storage, method, monkeypatch, capsys):
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
    queue.finish(claim, RECORD)
    assert queue.records(["a"]) == {"a": RECORD}
    assert "The storage does not answer" in capsys.readouterr().out
    failures[0] = 3
    queue.add(["b"])
    with pytest.raises(UserError, match="the same command goes on"):
        queue.claim(["b"], {})


def test_a_run_that_costs_its_workers_is_given_up_until_it_is_asked_for_again(storage):
    """It may need more memory than there is: the others must be done before every worker is gone."""
    queue = Queue(storage, lost_after=600)
    queue.add(["greedy", "other"])
    for _ in range(MOST_LOST):
        claim = queue.claim(["greedy", "other"], {})
        assert claim.key == "greedy"
        silence(storage, claim)
    assert queue.claim(["greedy", "other"], {}).key == "other"
    assert "workers were lost at it" in queue.errors(["greedy"])["greedy"]
    queue.add(["greedy"])
    silence(storage, queue.claim(["greedy"], {}))
    given_back = queue.claim(["greedy"], {})
    assert given_back.key == "greedy"
    queue.release(given_back)
    for _ in range(MOST_LOST):  # each who gave it back had worked on it
        silence(storage, queue.claim(["greedy"], {}))
    assert queue.claim(["greedy"], {}) is None


def test_after_an_outage_nobody_is_taken_for_dead_at_once(storage, monkeypatch, capsys):
    """While the storage was away nobody's signs of life came through: the first who is back must not take all runs."""
    queue = Queue(storage, lost_after=600)
    queue.add(["a", "b"])
    silence(storage, queue.claim(["a"], {}))
    now = [1000.0]
    monkeypatch.setattr("surelabel.studies.queue.time.monotonic", lambda: now[0])
    queue.out_of_reach()
    assert queue.claim(["a"], {}) is None
    now[0] += 2 * BEAT
    assert queue.claim(["a"], {}).key == "a"


def silence(storage, claim):
    """Make the last sign of life of this claim's worker one of long ago."""
    from sqlalchemy import text

    with Queue(storage).storage.engine.begin() as connection:
        found = connection.execute(
            text("UPDATE trial_heartbeats SET heartbeat = '2000-01-01 00:00:00' WHERE trial_id = :number"),
            {"number": claim.trial},
        )
    assert found.rowcount == 1


def test_a_worker_gives_signs_of_life_as_often_as_the_least_patient_needs_and_after_a_failure_again(
    storage, monkeypatch
):
    monkeypatch.setattr("surelabel.studies.queue.BEAT", 0.5)
    queue = Queue(storage, lost_after=6000)
    queue.add(["a"])
    claim = queue.claim(["a"], {})
    silence(storage, claim)
    record, beats, enough = queue.storage.record_heartbeat, [], threading.Event()

    def beat(trial):
        beats.append(trial)
        if len(beats) == 1:
            raise OSError("the storage is out of reach")
        record(trial)
        enough.set()

    monkeypatch.setattr(queue.storage, "record_heartbeat", beat)
    with queue.alive(claim):
        assert enough.wait(60)  # two signs, of which the first fails, take a second
        assert Queue(storage, lost_after=600).claim(["a"], {}) is None
    assert queue.counts(["a"])["running"] == ["a"]


def test_what_is_finished_elsewhere_is_offered_once(storage):
    queue = Queue(storage)
    queue.add(["a"])
    queue.offer({"a": RECORD, "b": RECORD})
    queue.offer({"a": RECORD, "b": RECORD})
    assert queue.records("ab") == {"a": RECORD, "b": RECORD}
    assert len(queue.study.trials) == 3
    assert queue.claim(["a", "b"], {}) is None


def _claim_all(url, start, taken):
    start.wait()
    queue = Queue(url)
    queue.add(KEYS)
    while (claim := queue.claim(KEYS, {})) is not None:
        taken.put(claim.key)
    taken.put(None)


def test_processes_that_add_and_claim_at_the_same_time_share_the_runs_out(storage):
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
        ("mysql://host/name", "it can be sqlite:///FILE or postgresql://"),
        ("study.db", "it can be sqlite:///FILE or postgresql://"),
        ("postgresql://me:secret@127.0.0.1:1/none", "cannot open the storage postgresql"),
        ("sqlite:////proc/none/study.db", "cannot"),
        ("sqlite://x.db", "it can be sqlite:///FILE"),
        ("postgresql://me:secret@host:abc/db", "PORT a number"),
    ],
)
def test_a_storage_that_cannot_be_opened_is_told_without_its_password(url, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message) as non_defaults:
        open_storage(url)
    assert "secret" not in str(non_defaults.value)
    assert not list(tmp_path.iterdir())
