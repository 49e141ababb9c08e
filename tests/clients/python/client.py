"""redis-py against Weir; see ../README.md."""

import os

import redis


def check(got, wanted):
    assert got == wanted, f"{got!r} instead of {wanted!r}"


def connect(protocol):
    return redis.Redis(
        port=int(os.environ["WEIR_PORT"]),
        username=os.environ.get("WEIR_USER"),
        password=os.environ.get("WEIR_SECRET"),
        protocol=protocol,
        decode_responses=True,
        socket_timeout=20,
    )


def run(protocol):
    client = connect(protocol)
    prefix = f"{{py{protocol}}}:"
    key = lambda name: prefix + name

    check(client.ping(), True)
    check(client.set(key("a"), "1"), True)
    check(client.get(key("a")), "1")
    check(client.get(key("none")), None)
    check(client.set(key("a"), "2", nx=True), None)
    check(client.set(key("a"), "2", get=True), "1")
    check(client.incrby(key("a"), 5), 7)
    check(client.incrbyfloat(key("f"), 1.5), 1.5)
    check(client.append(key("s"), "hello"), 5)
    check(client.setrange(key("s"), 1, "a"), 5)
    check(client.getrange(key("s"), 0, 2), "hal")
    check(client.strlen(key("s")), 5)
    check(client.mset({key("m1"): "x", key("m2"): "y"}), True)
    check(client.mget(key("m1"), key("none"), key("m2")), ["x", None, "y"])
    check(client.exists(key("m1"), key("m2"), key("none")), 2)
    check(client.type(key("m1")), "string")
    check(sorted(client.scan_iter(match=prefix + "m*")), [key("m1"), key("m2")])
    check(client.delete(key("m1"), key("none")), 1)

    check(client.set(key("t"), "v", ex=100), True)
    assert 98 <= client.ttl(key("t")) <= 100
    check(client.persist(key("t")), True)
    check(client.ttl(key("t")), -1)
    check(client.pexpire(key("t"), 50_000), True)
    assert 40_000 < client.pttl(key("t")) <= 50_000
    check(client.ttl(key("none")), -2)

    check(client.setbit(key("b"), 7, 1), 0)
    check(client.getbit(key("b"), 7), 1)
    check(client.bitcount(key("b")), 1)
    check(client.bitpos(key("b"), 1), 7)

    with client.pipeline(transaction=False) as pipe:
        for number in range(200):
            pipe.set(key(f"p{number}"), number)
            pipe.get(key(f"p{number}"))
        replies = pipe.execute()
    check(replies[1::2], [str(number) for number in range(200)])

    with client.pipeline() as pipe:
        check(pipe.incr(key("tx")).incr(key("tx")).set(key("p0"), "x").execute(), [1, 2, True])
    with client.pipeline() as pipe:
        pipe.watch(key("tx"))
        client.incr(key("tx"))
        pipe.multi()
        pipe.incr(key("tx"))
        try:
            pipe.execute()
            raise AssertionError("what was watched had changed")
        except redis.WatchError:
            pass
    check(client.mget(key("tx"), key("p0")), ["3", "x"])

    try:
        client.incr(key("s"))
        raise AssertionError("text was incremented")
    except redis.ResponseError as error:
        assert "not an integer" in str(error), error

    # A connection that the server closed is made again, logged in.
    victim = connect(protocol)
    number = victim.client_id()
    victim.execute_command("QUIT")
    for _ in range(2):
        try:
            check(victim.get(key("s")), "hallo")
            break
        except redis.ConnectionError:
            pass
    check(victim.get(key("s")), "hallo")
    assert victim.client_id() != number
    assert "redis_version" in client.info("server")


for protocol in (2, 3):
    run(protocol)
print("redis-py", redis.__version__, "works")
