// Jedis against Weir; see ../README.md.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;

class Client {
    static final HostAndPort SERVER = new HostAndPort("127.0.0.1", Integer.parseInt(System.getenv("WEIR_PORT")));

    static void check(Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) throw new AssertionError(got + " instead of " + wanted);
    }

    static DefaultJedisClientConfig config(RedisProtocol protocol) {
        return DefaultJedisClientConfig.builder()
            .protocol(protocol)
            .user(System.getenv("WEIR_USER"))
            .password(System.getenv("WEIR_SECRET"))
            .timeoutMillis(20000)
            .build();
    }

    static void run(RedisProtocol protocol) {
        String prefix = "{java-" + protocol + "}:";
        try (Jedis client = new Jedis(SERVER, config(protocol));
                JedisPooled victim = new JedisPooled(SERVER, config(protocol))) {
            check(client.ping(), "PONG");
            check(client.set(prefix + "a", "1"), "OK");
            check(client.get(prefix + "a"), "1");
            check(client.get(prefix + "none"), null);
            check(client.set(prefix + "a", "2", SetParams.setParams().nx()), null);
            check(client.incrBy(prefix + "a", 5), 6L);
            check(client.incrByFloat(prefix + "f", 1.5), 1.5);
            check(client.append(prefix + "s", "hello"), 5L);
            check(client.getrange(prefix + "s", 1, 2), "el");
            check(client.mset(prefix + "m1", "x", prefix + "m2", "y"), "OK");
            check(client.mget(prefix + "m1", prefix + "none", prefix + "m2"), Arrays.asList("x", null, "y"));
            check(client.exists(prefix + "m1", prefix + "none"), 1L);
            check(client.type(prefix + "m1"), "string");
            int found = 0;
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                var page = client.scan(cursor, new ScanParams().match(prefix + "m*"));
                found += page.getResult().size();
                cursor = page.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            check(found, 2);
            check(client.del(prefix + "m1", prefix + "none"), 1L);

            check(client.setex(prefix + "t", 100, "v"), "OK");
            check(client.ttl(prefix + "t") > 97, true);
            check(client.persist(prefix + "t"), 1L);
            check(client.ttl(prefix + "t"), -1L);

            check(client.setbit(prefix + "b", 7, true), false);
            check(client.getbit(prefix + "b", 7), true);
            check(client.bitcount(prefix + "b"), 1L);

            Pipeline pipeline = client.pipelined();
            List<Response<String>> replies = new ArrayList<>();
            for (int i = 0; i < 200; i++) {
                pipeline.set(prefix + "p" + i, String.valueOf(i));
                replies.add(pipeline.get(prefix + "p" + i));
            }
            pipeline.sync();
            for (int i = 0; i < 200; i++) check(replies.get(i).get(), String.valueOf(i));

            try (AbstractTransaction transaction = client.multi()) {
                transaction.incr(prefix + "tx");
                transaction.incr(prefix + "tx");
                check(transaction.exec().get(1), 2L);
            }
            check(client.get(prefix + "tx"), "2");

            try {
                client.incr(prefix + "s");
                throw new AssertionError("text was incremented");
            } catch (JedisDataException error) {
                check(error.getMessage().contains("not an integer"), true);
            }

            // Where the server closed a connection, the pool makes a new one, logged in.
            check(victim.get(prefix + "s"), "hello");
            victim.sendCommand(() -> "QUIT".getBytes());
            String value = null;
            for (int tries = 0; tries < 3 && value == null; tries++) {
                try {
                    value = victim.get(prefix + "s");
                } catch (JedisConnectionException error) {
                    // The pool notices a dead connection when it is used.
                }
            }
            check(value, "hello");
        }
    }

    public static void main(String[] arguments) {
        run(RedisProtocol.RESP2);
        run(RedisProtocol.RESP3);
        System.out.println("jedis works");
    }
}
