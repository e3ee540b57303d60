"""Django's cache over redis-py, at the port that is the argument: what Django's own tests of a cache ask for."""

import sys
import time

import django
from django.conf import settings

ADDRESS = f"redis://127.0.0.1:{sys.argv[1]}"
settings.configure(
    CACHES={
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": ADDRESS},
        "prefix": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": ADDRESS,
            "KEY_PREFIX": "other",
            "VERSION": 2,
        },
    }
)
django.setup()

from django.core.cache import caches  # noqa: E402

cache, prefix = caches["default"], caches["prefix"]
cache.clear()
value = {"text": "ünïcode", "list": [1, 2.5, None], "bytes": bytes(range(256)) * 500}
cache.set("key", value)
assert cache.get("key") == value and prefix.get("key") is None and "key" in cache
assert cache.add("key", 1) is False and cache.add("new", 1) is True
assert cache.get("none", "default") == "default" and cache.get_or_set("made", lambda: 7) == 7
cache.set_many({"a": 1, "b": "two", "c": [3]}, timeout=60)
assert cache.get_many(["a", "b", "c", "none"]) == {"a": 1, "b": "two", "c": [3]}
cache.set("n", 41)
assert cache.incr("n") == 42 and cache.decr("n", 2) == 40
try:
    cache.incr("none")
    raise SystemExit("there is nothing to add to")
except ValueError:
    pass
assert cache.touch("a", 100) is True and cache.touch("none", 100) is False
cache.set("short", 1, timeout=0.05)
cache.set("never", 1, timeout=None)
deadline = time.monotonic() + 60
while cache.get("short") is not None:
    assert time.monotonic() < deadline, "it does not expire"
cache.set("gone", 1, timeout=-1)
assert cache.get("gone") is None and cache.get("never") == 1
assert cache.delete("a") is True and cache.delete("a") is False
cache.delete_many(["b", "c"])
assert cache.get_many(["b", "c"]) == {}
cache.set("versioned", 1, version=1)
assert cache.incr_version("versioned") == 2 and cache.get("versioned", version=2) == 1
cache.clear()
assert cache.get("never") is None
print("done")
