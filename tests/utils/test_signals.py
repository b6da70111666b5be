import os
import signal
import threading

import pytest

from surelabel.utils.signals import Stopped, StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_waits_and_is_told_at_the_end(number):
    before = signal.getsignal(number)
    with StopRequest() as stop:
        os.kill(os.getpid(), number)
        assert stop.requested == number
    assert signal.getsignal(number) is before
    with pytest.raises(Stopped) as stopped:
        stop.end()
    assert stopped.value.exit_code == 128 + number


def test_a_second_interrupt_does_not_wait():
    with pytest.raises(KeyboardInterrupt), StopRequest():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_without_a_signal_nothing_happens():
    with StopRequest() as stop:
        pass
    stop.end()


def test_outside_the_main_thread_it_does_no_harm():
    done = []

    def work():
        with StopRequest() as stop:
            done.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [0]
