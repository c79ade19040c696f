"""Stands above a worker and kills all that the worker started, however it or the gateway ends.

:func:`supervise` forks: the child goes on as the worker, and the parent watches. On Linux the parent adopts
every orphan among its descendants (PR_SET_CHILD_SUBREAPER), so neither a session of its own nor a double
fork takes a process out of its reach; elsewhere it reaches the worker's process group. It ends when the
worker ends, when the gateway closes the pipe of the requests or dies, or on SIGTERM, and not before the last
descendant is dead. It keeps the descriptors that it was given open until then: the lock by which others see
that the gateway's process is alive is one of them.

Loaded by the worker's script before anything else, so it knows nothing of the package.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36  # prctl(2)
#: Seconds between looks whether the gateway's process is gone, if its pipe does not say so.
_LOOK = 1.0
#: Seconds between two rounds of killing, if one was not enough: the first pause, and the longest.
_FIRST_PAUSE, _MAX_PAUSE = 0.002, 0.2


def supervise() -> None:
    """Return in a new child process, which is killed together with its descendants; never in the parent."""
    gateway = os.getppid()
    _prctl(_SET_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    child = os.fork()
    if child == 0:
        os.close(woken)
        os.close(wake)
        _become_worker()
        return
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.close(1)  # the end of the worker is the end of its replies
    _watch(child, gateway, woken)
    _kill_all(child)
    os._exit(0)


def _become_worker() -> None:
    parent = os.getppid()
    os.setsid()  # a tool that signals its own group does not meet the supervisor
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the signal was set
        os._exit(1)
    for descriptor in _given_descriptors():
        os.close(descriptor)


def _given_descriptors() -> list[int]:
    """Return the descriptors that the gateway passed on, beside the standard ones."""
    return [int(text) for text in sys.argv[1:]]


def _watch(child: int, gateway: int, woken: int) -> None:
    """Return when the worker has ended, or is to end."""
    poll = select.poll()
    poll.register(0, 0)  # no data: only whether the other end is closed
    poll.register(woken, select.POLLIN)
    while os.getppid() == gateway:
        for descriptor, _ in poll.poll(_LOOK * 1000):
            if descriptor != woken or signal.SIGTERM in os.read(woken, 64):
                return
        if child in _reap():
            return


def _kill_all(child: int) -> None:
    """Kill every descendant, and return when none is left."""
    if sys.platform != "linux":  # pragma: no cover
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        return
    pause = _FIRST_PAUSE
    while found := descendants(os.getpid()):
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)


def _reap() -> set[int]:
    """Collect the children that have ended; orphans that were adopted are among them."""
    ended: set[int] = set()
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            ended.add(pid)
    return ended


def descendants(root: int) -> list[int]:
    """Return the processes below ``root`` that have not been collected, children first."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    # "pid (command) state parent ...", and a command may hold ")" and spaces
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                below.setdefault(parent, []).append(int(name))
    found = list(below.get(root, ()))
    for pid in found:
        found += below.get(pid, ())
    return found


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":  # pragma: no cover
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
