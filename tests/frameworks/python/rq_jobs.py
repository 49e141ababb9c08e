"""rq: jobs, results, a schedule, a failure, and a worker that is killed."""

import sys
from datetime import datetime, timedelta, timezone

import rq
from common import Worker, check, connect, hold_once, until, until_alone
from rq.registry import FailedJobRegistry, StartedJobRegistry


def square(number):
    return number * number


def fail():
    raise ValueError("planned")


def held(number):
    hold_once(connect(), "rq")
    return -number


def work():
    rq.Worker(["jobs"], connection=connect()).work(with_scheduler=True, logging_level="WARNING")


def start():
    return Worker("rq_jobs.py", "work")


def main():
    client = connect()
    queue = rq.Queue("jobs", connection=client)
    with start():
        done = [queue.enqueue("rq_jobs.square", number) for number in range(20)]
        until("the jobs are done", lambda: all(job.is_finished for job in done if job.refresh() is None))
        check([job.return_value() for job in done], [number * number for number in range(20)])
        failed = queue.enqueue("rq_jobs.fail")
        until("a job has failed", lambda: failed.get_status(refresh=True) == "failed")
        assert "planned" in failed.latest_result().exc_string
        check(FailedJobRegistry(queue=queue).get_job_ids(), [failed.id])
        after = queue.enqueue("rq_jobs.square", 9, depends_on=done[0])
        later = queue.enqueue_at(datetime.now(timezone.utc) + timedelta(seconds=1), "rq_jobs.square", 5)
        for job, result in ((after, 81), (later, 25)):
            until("a job that waits is done", lambda: job.get_status(refresh=True) == "finished")
            check(job.return_value(), result)
    until_alone(client)
    with start() as worker:
        jobs = [queue.enqueue("rq_jobs.held", number, retry=rq.Retry(max=3)) for number in range(5)]
        until("a job is under way", lambda: client.exists("held:rq"))
        worker.kill()
    until_alone(client)
    # A worker that starts does this for jobs without a sign of life for a minute; nobody waits so long here.
    StartedJobRegistry(queue=queue).cleanup(timestamp=datetime.now(timezone.utc).timestamp() + 3600)
    with start():
        until("the jobs are done", lambda: all(job.get_status(refresh=True) == "finished" for job in jobs))
        check([job.return_value() for job in jobs], [0, -1, -2, -3, -4])
    check(queue.count, 0)
    print("rq", rq.__version__, "works")


if __name__ == "__main__":
    work() if sys.argv[1:] == ["work"] else main()
