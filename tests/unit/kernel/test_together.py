from __future__ import annotations

import pytest

from meshnet.kernel.run import Ran
from meshnet.kernel.together import awaited, later, outcomes, results
from meshnet.model.errors import ToolError


class Job:
    """Work that writes down what happens to it."""

    def __init__(self, name, log, error=None):
        self.name, self.log, self.error = name, log, error
        log.append(f"begin {name}")

    def finish(self):
        self.log.append(f"finish {self.name}")
        if self.error is not None:
            raise self.error
        return self.name.upper()

    def stop(self):
        self.log.append(f"stop {self.name}")


def beginner(log, **errors):
    return lambda name: Job(name, log, errors.get(name))


def test_all_begin_before_the_first_is_waited_for():
    log = []
    assert outcomes(beginner(log), "ab", lambda: log.append("meanwhile")) == ["A", "B"]
    assert log == ["begin a", "begin b", "meanwhile", "finish a", "finish b"]


def test_one_that_fails_leaves_the_others_to_their_end():
    log, error = [], ToolError("no")
    assert outcomes(beginner(log, a=error), "ab") == [error, "B"]
    with pytest.raises(ToolError, match="no"):
        results(beginner(log, a=error), "ab")
    assert log[-1] == "finish b"


def test_one_that_cannot_begin_counts_as_failed():
    log, error = [], ToolError("not installed")

    def begin(name):
        if name == "a":
            raise error
        return Job(name, log)

    assert outcomes(begin, "ab") == [error, "B"]


def test_ctrl_c_stops_what_is_under_way():
    log = []
    with pytest.raises(KeyboardInterrupt):
        outcomes(beginner(log, a=KeyboardInterrupt()), "ab")
    assert log[-2:] == ["stop a", "stop b"]
    assert "finish b" not in log


def test_whatever_fails_meanwhile_stops_what_is_under_way():
    log = []

    def fail():
        raise ToolError("meanwhile")

    with pytest.raises(ToolError, match="meanwhile"):
        outcomes(beginner(log), "ab", fail)
    assert log[-2:] == ["stop a", "stop b"]


def test_work_without_a_process_is_done_when_it_is_waited_for():
    log = []
    work = later(lambda: log.append("done"))
    assert log == []
    work.finish()
    work.stop()
    assert log == ["done"]


class Process:
    """One that has been started, and what is asked of it."""

    def __init__(self):
        self.log = []

    def wait(self):
        self.log.append("wait")
        return Ran(("tool",), 3, "said", "")

    def stop(self):
        self.log.append("stop")


def test_a_process_s_end_becomes_a_result():
    process = Process()
    work = awaited(process, lambda ran: (ran.out, ran.code))
    assert process.log == []
    assert work.finish() == ("said", 3)
    assert process.log == ["wait"]


def test_a_process_s_end_may_be_a_refusal():
    def refuse(ran):
        raise ToolError(f"status {ran.code}")

    with pytest.raises(ToolError, match="status 3"):
        awaited(Process(), refuse).finish()


def test_a_process_that_is_stopped_is_not_waited_for():
    process = Process()
    awaited(process, lambda ran: pytest.fail("asked")).stop()
    assert process.log == ["stop"]
