"""Celery with Redis as its broker and its result backend: jobs, groups, chords, a retry, and a worker that is killed."""

import sys

from celery import Celery, chord, group
from common import URL, Worker, check, connect, hold_once, until

app = Celery("celery_jobs", broker=URL, backend=URL)
app.conf.update(
    # What a worker has not finished is another one's after this time: as Celery promises it for late acknowledgements.
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_transport_options={
        "visibility_timeout": 2,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
    result_expires=600,
    broker_connection_retry_on_startup=True,
)


@app.task
def square(number):
    return number * number


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3, default_retry_delay=0)
def second_time_lucky(self, word):
    if self.request.retries == 0:
        raise self.retry()
    return word


@app.task
def held(number):
    hold_once(connect(), "celery")
    return -number


def start():
    return Worker("-m", "celery", "-A", "celery_jobs", "worker", "--pool=solo", "--loglevel=warning")


def main():
    with start():
        check(square.delay(7).get(timeout=120), 49)
        check(group(square.s(number) for number in range(10)).apply_async().get(timeout=120), [n * n for n in range(10)])
        check(chord((square.s(number) for number in range(5)), total.s()).apply_async().get(timeout=120), 30)
        check(second_time_lucky.delay("yes").get(timeout=120), "yes")
        check(square.apply_async((3,), countdown=1).get(timeout=120), 9)
        check(len(until("a worker answers a ping", lambda: app.control.inspect(timeout=2).ping())), 1)
    with start() as worker:
        client = connect()
        jobs = [held.delay(number) for number in range(5)]
        until("a job is under way", lambda: client.exists("held:celery"))
        worker.kill()
    with start():
        check([job.get(timeout=120) for job in jobs], [0, -1, -2, -3, -4])
        # A result is there before the job is taken off.
        until("nothing is left to do", lambda: client.llen("celery") + client.hlen("unacked") == 0)
    print("celery", sys.modules["celery"].__version__, "works")


if __name__ == "__main__":
    main()
