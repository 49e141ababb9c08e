"""django-redis: a cache and sessions."""

import threading

import django
import django_redis
from common import URL, check
from django.conf import settings

settings.configure(
    CACHES={
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": URL,
            "KEY_PREFIX": "shop",
            "OPTIONS": {"COMPRESSOR": "django_redis.compressors.zlib.ZlibCompressor"},
        }
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    SECRET_KEY="of a test",
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import cache  # noqa: E402

cache.set("greeting", {"hello": ["world", 1]}, timeout=100)
check(cache.get("greeting"), {"hello": ["world", 1]})
assert 98 <= cache.ttl("greeting") <= 100
check(cache.get("none", "nothing"), "nothing")
check(cache.add("greeting", 1), False)
check(cache.touch("greeting", 200), True)
assert cache.ttl("greeting") > 100
cache.set("count", 5)
check(cache.incr("count"), 6)
check(cache.incr("count", delta=10), 16)
check(cache.decr("count"), 15)
cache.set_many({f"item-{number}": "x" * 5000 for number in range(50)})
check(len(cache.get_many([f"item-{number}" for number in range(60)])), 50)
check(len(list(cache.iter_keys("item-*"))), 50)
check(cache.delete_pattern("item-*"), 50)
check(cache.keys("item-*"), [])
check(cache.persist("greeting"), True)
check(cache.ttl("greeting"), None)
check(cache.get_or_set("made", lambda: 7), 7)
check(cache.delete_many(["made", "count"]), 2)

seen = []
with cache.lock("lock", timeout=20, blocking_timeout=20):
    other = threading.Thread(target=lambda: seen.append(cache.lock("lock", blocking_timeout=0.2).acquire()))
    other.start()
    other.join()
check(seen, [False])
assert cache.lock("lock", timeout=5).acquire()

session = SessionStore()
session["cart"] = [1, 2]
session.set_expiry(100)
session.save()
check(SessionStore(session_key=session.session_key)["cart"], [1, 2])
session.cycle_key()
check(SessionStore(session_key=session.session_key)["cart"], [1, 2])
session.flush()
cache.clear()
check(cache.get("greeting"), None)
print("django-redis", django_redis.__version__, "with Django", django.__version__, "works")
