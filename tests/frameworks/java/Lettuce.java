import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Lettuce, over RESP2 and RESP3; see ../README.md. */
class Lettuce {
  static void check(Object got, Object wanted) {
    if (!String.valueOf(got).equals(String.valueOf(wanted))) {
      throw new AssertionError(got + " instead of " + wanted);
    }
  }

  static void run(ProtocolVersion version) throws Exception {
    RedisClient client = RedisClient.create(RedisURI.create(System.getenv("WEIR_URL")));
    client.setOptions(ClientOptions.builder().protocolVersion(version).build());
    client.setDefaultTimeout(Duration.ofSeconds(60));
    String prefix = "{lettuce-" + version + "}:";
    try (var connection = client.connect()) {
      var sync = connection.sync();
      check(sync.set(prefix + "a", "1", SetArgs.Builder.ex(100)), "OK");
      check(sync.incrby(prefix + "a", 41), 42);
      check(sync.mget(prefix + "a", prefix + "none"), List.of(KeyValue.just(prefix + "a", "42"), KeyValue.empty(prefix + "none")));
      check(sync.hset(prefix + "h", Map.of("field", "value")), 1);
      check(sync.hgetall(prefix + "h"), Map.of("field", "value"));
      sync.zadd(prefix + "z", ScoredValue.just(1.5, "one"), ScoredValue.just(2, "two"));
      check(sync.zrangeWithScores(prefix + "z", 0, -1), List.of(ScoredValue.just(1.5, "one"), ScoredValue.just(2, "two")));
      String id = sync.xadd(prefix + "s", Map.of("field", "value"));
      check(sync.xrange(prefix + "s", io.lettuce.core.Range.unbounded()).get(0).getId(), id);
      int found = 0;
      for (var keys = ScanIterator.scan(sync, ScanArgs.Builder.matches(prefix + "*")); keys.hasNext(); keys.next()) {
        found++;
      }
      check(found, 4);

      connection.setAutoFlushCommands(false);
      List<RedisFuture<Long>> futures = new ArrayList<>();
      for (int i = 0; i < 1000; i++) {
        futures.add(connection.async().incr(prefix + "n"));
      }
      connection.flushCommands();
      check(LettuceFutures.awaitAll(60, TimeUnit.SECONDS, futures.toArray(new RedisFuture[0])), true);
      connection.setAutoFlushCommands(true);
      check(futures.get(999).get(), 1000);

      sync.multi();
      sync.incr(prefix + "n");
      check(sync.exec().get(0), 1001);
      check(sync.eval("return redis.call('get', KEYS[1])", ScriptOutputType.VALUE, prefix + "n"), 1001);
      try {
        sync.incr(prefix + "h");
        throw new AssertionError("a hash was incremented");
      } catch (RedisCommandExecutionException error) {
        check(error.getMessage().startsWith("WRONGTYPE"), true);
      }

      try (var listener = client.connectPubSub(); var other = client.connect()) {
        var heard = new CompletableFuture<String>();
        listener.addListener(new RedisPubSubAdapter<>() {
          @Override
          public void message(String channel, String message) {
            heard.complete(message);
          }
        });
        listener.sync().subscribe(prefix + "news");
        check(sync.publish(prefix + "news", "hello"), 1);
        check(heard.get(60, TimeUnit.SECONDS), "hello");
        var blocked = other.async().blpop(20, prefix + "list");
        sync.rpush(prefix + "list", "job");
        check(blocked.get(60, TimeUnit.SECONDS).getValue(), "job");
        // A connection that is lost is made again.
        long before = other.sync().clientId();
        check(sync.clientKill(io.lettuce.core.KillArgs.Builder.id(before)), 1);
        check(other.sync().get(prefix + "n"), 1001);
        check(other.sync().clientId() != before, true);
      }
    }
    client.shutdown(0, 1, TimeUnit.SECONDS);
  }

  public static void main(String[] arguments) throws Exception {
    run(ProtocolVersion.RESP2);
    run(ProtocolVersion.RESP3);
    System.out.println("lettuce " + io.lettuce.core.LettuceVersion.getVersion() + " works");
  }
}
