"""What the programs share: where the server is, workers as processes, and patience."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import redis

URL = os.environ["WEIR_URL"]
PATIENCE = 120


def connect(**options):
    return redis.Redis.from_url(URL, socket_timeout=30, **options)


def check(got, wanted):
    assert got == wanted, f"{got!r} instead of {wanted!r}"


def until(what, is_so):
    """Waits for others until `is_so()`, and gives what it gave."""
    end = time.monotonic() + PATIENCE
    while not (found := is_so()):
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.05)
    return found


def until_alone(client):
    """Waits until the server has no other connection of this tenant: one of a worker that was just killed may still be
    given the next job, by a redis-server too."""
    # But for the one that asks.
    client.connection_pool.disconnect()
    until("the connections of killed workers are gone", lambda: len(client.client_list()) == 1)


class Worker:
    """A process that does jobs, with all that it starts."""

    def __init__(self, *arguments):
        directory = os.path.dirname(os.path.abspath(__file__))
        self.process = subprocess.Popen(
            [sys.executable, *arguments], cwd=directory, start_new_session=True, stdin=subprocess.DEVNULL
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        """As `kill -9`, of all that it has started, too: some workers give their jobs a process group of their own."""
        if self.process.poll() is None:
            started = descendants(self.process.pid)
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            for pid in started:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass


def descendants(pid):
    """The numbers of the processes that `pid` has started, and of those that they have."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of a program may hold anything, even a parenthesis.
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def hold_once(client, name):
    """What a job does that is to be killed: the first one to do it says so and never ends, those after it go on."""
    if client.set(f"held:{name}", 1, nx=True):
        time.sleep(10 * PATIENCE)
