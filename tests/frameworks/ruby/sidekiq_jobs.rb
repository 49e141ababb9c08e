# Sidekiq: jobs, a schedule, a retry, and a worker that ends; see ../README.md.
#
# Without its commercial parts Sidekiq takes a job off its queue before it does it: one whose worker is killed is lost, on
# every server. One whose worker is told to end is put back; and what was not taken yet is there for the next worker.

require "sidekiq"
require "sidekiq/api"

URL = ENV.fetch("WEIR_URL")
PATIENCE = 120
Sidekiq.configure_client { |config| config.redis = { url: URL } }
Sidekiq.configure_server do |config|
  config.redis = { url: URL }
  config.options[:poll_interval_average] = 1
end

class Square
  include Sidekiq::Worker

  def perform(number)
    Sidekiq.redis { |redis| redis.hset("squares", number, number * number) }
  end
end

class Lucky
  include Sidekiq::Worker
  sidekiq_options retry: 3
  sidekiq_retry_in { 0 }

  def perform
    tries = Sidekiq.redis { |redis| redis.incr("lucky") }
    raise "planned" if tries == 1
  end
end

class Held
  include Sidekiq::Worker

  def perform(number)
    first = Sidekiq.redis { |redis| redis.set("held:sidekiq", 1, nx: true) }
    sleep(10 * PATIENCE) if first
    Sidekiq.redis { |redis| redis.rpush("held", number) }
  end
end

def check(got, wanted)
  raise "#{got.inspect} instead of #{wanted.inspect}" unless got == wanted
end

def till(what)
  finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
  until yield
    raise "in vain: #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > finish
    sleep 0.05
  end
end

def start
  spawn("sidekiq", "-r", File.expand_path(__FILE__), "-c", "1", "-t", "1", "-e", "production", "-q", "default", %i[out err] => File::NULL)
end

def finish(worker, signal)
  Process.kill(signal, worker)
  Process.wait(worker)
end

def main
  squares = -> { Sidekiq.redis { |redis| redis.hgetall("squares") } }
  worker = start
  20.times { |number| Square.perform_async(number) }
  Square.perform_in(1, 100)
  till("jobs are done") { squares.call.size == 21 }
  check(squares.call["7"], "49")
  Lucky.perform_async
  till("a job is tried again") { Sidekiq.redis { |redis| redis.get("lucky") } == "2" }
  till("it is counted") { Sidekiq::Stats.new.processed == 23 }
  check(Sidekiq::Stats.new.failed, 1)

  5.times { |number| Held.perform_async(number) }
  till("a job is under way") { Sidekiq.redis { |redis| redis.get("held:sidekiq") } }
  finish(worker, "TERM")
  worker = start
  till("all jobs are done, the one that was put back, too") { Sidekiq.redis { |redis| redis.llen("held") } == 5 }
  Sidekiq.redis { |redis| redis.del("held:sidekiq", "held") }

  5.times { |number| Held.perform_async(number) }
  till("a job is under way") { Sidekiq.redis { |redis| redis.get("held:sidekiq") } }
  finish(worker, "KILL")
  worker = start
  till("all jobs that were not taken are done") { Sidekiq.redis { |redis| redis.llen("held") } == 4 }
  finish(worker, "TERM")
  check(Sidekiq::Queue.new.size, 0)
  puts "sidekiq #{Sidekiq::VERSION} works"
end

main if $PROGRAM_NAME == __FILE__
