"""Locks: redis-py's own, and redlock-py. One holder at a time, whose lock is nobody else's to give back."""

import threading
import time
from importlib.metadata import version

import redis
from common import check, connect
from redlock import Redlock

client = connect()
counted = {"within": 0, "most": 0, "done": 0}


def one():
    with connect().lock("redis-py", timeout=30, sleep=0.01):
        counted["within"] += 1
        counted["most"] = max(counted["most"], counted["within"])
        time.sleep(0.01)
        counted["within"] -= 1
        counted["done"] += 1


threads = [threading.Thread(target=one) for _ in range(20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
check((counted["most"], counted["done"]), (1, 20))
lock = client.lock("redis-py", timeout=30)
assert lock.acquire() and lock.extend(10) and 30 < client.ttl("redis-py") <= 40 and lock.reacquire()
client.set("redis-py", "another's")
try:
    lock.release()
    raise AssertionError("another's lock was given back")
except redis.exceptions.LockNotOwnedError:
    check(client.get("redis-py"), b"another's")

manager = Redlock([client], retry_count=1)
mine = manager.lock("redlock", 30_000)
assert mine and not manager.lock("redlock", 30_000)
manager.unlock(mine)
again = manager.lock("redlock", 30_000)
assert again
manager.unlock(mine)
assert not manager.lock("redlock", 30_000), "an old key does not open it"
print("redlock-py", version("redlock-py"), "and the locks of redis-py", redis.__version__, "work")
