import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.springframework.data.redis.connection.RedisPassword;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.RedisTemplate;
import org.springframework.data.redis.listener.ChannelTopic;
import org.springframework.data.redis.listener.PatternTopic;
import org.springframework.data.redis.listener.RedisMessageListenerContainer;
import org.springframework.data.redis.serializer.RedisSerializer;
import org.springframework.session.FindByIndexNameSessionRepository;
import org.springframework.session.Session;
import org.springframework.session.SessionRepository;
import org.springframework.session.data.redis.RedisIndexedSessionRepository;
import org.springframework.session.data.redis.RedisSessionRepository;
import org.springframework.session.data.redis.config.ConfigureNotifyKeyspaceEventsAction;
import org.springframework.session.events.AbstractSessionEvent;

/** Spring Session: both of its repositories, and its events; see ../README.md. */
class SpringSession {
  static <S extends Session> void run(SessionRepository<S> sessions) {
    S session = sessions.createSession();
    session.setAttribute("cart", "apples");
    session.setAttribute(FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME, "ada");
    session.setMaxInactiveInterval(Duration.ofSeconds(100));
    sessions.save(session);
    S found = sessions.findById(session.getId());
    Lettuce.check(found.getAttribute("cart"), "apples");
    Lettuce.check(found.getMaxInactiveInterval(), Duration.ofSeconds(100));
    found.setAttribute("cart", "pears");
    String before = found.getId();
    String after = found.changeSessionId();
    sessions.save(found);
    Lettuce.check(sessions.findById(before), null);
    Lettuce.check(sessions.findById(after).getAttribute("cart"), "pears");
    sessions.deleteById(after);
    Lettuce.check(sessions.findById(after), null);
  }

  /** A session's end is told by an event of its key, as `@EnableRedisIndexedHttpSession` arranges it. */
  static void events(RedisIndexedSessionRepository sessions, LettuceConnectionFactory factory) throws Exception {
    var events = new LinkedBlockingQueue<Object>();
    sessions.setApplicationEventPublisher(events::add);
    try (var connection = factory.getConnection()) {
      new ConfigureNotifyKeyspaceEventsAction().configure(connection);
    }
    var listener = new RedisMessageListenerContainer();
    listener.setConnectionFactory(factory);
    listener.addMessageListener(sessions, List.of(
        new ChannelTopic(sessions.getSessionDeletedChannel()),
        new ChannelTopic(sessions.getSessionExpiredChannel()),
        new PatternTopic(sessions.getSessionCreatedChannelPrefix() + "*")));
    listener.afterPropertiesSet();
    listener.start();

    var brief = sessions.createSession();
    brief.setMaxInactiveInterval(Duration.ofSeconds(1));
    sessions.save(brief);
    Lettuce.check(next(events), "SessionCreatedEvent " + brief.getId());
    Lettuce.check(next(events), "SessionExpiredEvent " + brief.getId());
    var left = sessions.createSession();
    sessions.save(left);
    Lettuce.check(next(events), "SessionCreatedEvent " + left.getId());
    sessions.deleteById(left.getId());
    Lettuce.check(next(events), "SessionDeletedEvent " + left.getId());
    listener.destroy();
  }

  static String next(BlockingQueue<Object> events) throws InterruptedException {
    var event = (AbstractSessionEvent) events.poll(60, TimeUnit.SECONDS);
    return event == null ? "no event" : event.getClass().getSimpleName() + " " + event.getSessionId();
  }

  public static void main(String[] arguments) throws Exception {
    RedisURI uri = RedisURI.create(System.getenv("WEIR_URL"));
    var server = new RedisStandaloneConfiguration(uri.getHost(), uri.getPort());
    server.setUsername(uri.getUsername());
    server.setPassword(uri.getPassword() == null ? RedisPassword.none() : RedisPassword.of(uri.getPassword()));
    var factory = new LettuceConnectionFactory(server);
    factory.afterPropertiesSet();
    factory.start();
    var template = new RedisTemplate<String, Object>();
    template.setConnectionFactory(factory);
    template.setKeySerializer(RedisSerializer.string());
    template.setHashKeySerializer(RedisSerializer.string());
    template.afterPropertiesSet();

    run(new RedisSessionRepository(template));
    var indexed = new RedisIndexedSessionRepository(template);
    run(indexed);
    var session = indexed.createSession();
    session.setAttribute(FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME, "eve");
    indexed.save(session);
    Map<String, ? extends Session> found = indexed.findByPrincipalName("eve");
    Lettuce.check(found.keySet(), "[" + session.getId() + "]");
    indexed.deleteById(session.getId());
    Lettuce.check(indexed.findByPrincipalName("eve").size(), 0);
    events(indexed, factory);
    factory.destroy();
    System.out.println("spring-session " + RedisSessionRepository.class.getPackage().getImplementationVersion() + " works");
    System.exit(0);
  }
}
