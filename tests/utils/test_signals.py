import os
import signal
import threading

import pytest

from surelabel.utils.signals import Stopped, StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stop_request_defers_the_first_signal(number):
    before = signal.getsignal(number)
    with StopRequest() as stop:
        os.kill(os.getpid(), number)
        assert stop.requested == number
    assert signal.getsignal(number) is before
    with pytest.raises(Stopped) as stopped:
        stop.end()
    assert stopped.value.exit_code == 128 + number


def test_stop_request_lets_a_second_interrupt_through():
    with pytest.raises(KeyboardInterrupt), StopRequest():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_stop_request_without_signal_does_nothing():
    with StopRequest() as stop:
        pass
    stop.end()


def test_stop_request_works_outside_the_main_thread():
    done = []

    def work():
        with StopRequest() as stop:
            done.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [0]
