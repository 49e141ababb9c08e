// asynq: tasks, retries, schedules, unique tasks, and a worker that is killed; see ../README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const patience = 120 * time.Second

func must[T any](value T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}

func parsed() *redis.Options { return must(redis.ParseURL(os.Getenv("WEIR_URL"))) }

// options are not those of asynq.ParseRedisURI, which leaves out the name.
func options() asynq.RedisConnOpt {
	url := parsed()
	return asynq.RedisClientOpt{Addr: url.Addr, Username: url.Username, Password: url.Password, DB: url.DB}
}

func connect() *redis.Client { return redis.NewClient(parsed()) }

// work serves tasks until it is killed.
func work() {
	client := connect()
	mux := asynq.NewServeMux()
	mux.HandleFunc("square", func(ctx context.Context, task *asynq.Task) error {
		var number int
		if err := json.Unmarshal(task.Payload(), &number); err != nil {
			return err
		}
		_, err := task.ResultWriter().Write([]byte(fmt.Sprint(number * number)))
		return err
	})
	mux.HandleFunc("lucky", func(ctx context.Context, task *asynq.Task) error {
		if retried, _ := asynq.GetRetryCount(ctx); retried == 0 {
			return errors.New("planned")
		}
		return nil
	})
	mux.HandleFunc("held", func(ctx context.Context, task *asynq.Task) error {
		// The first one to do it says so and never ends.
		if first, err := client.SetNX(ctx, "held:asynq", 1, 0).Result(); err != nil || !first {
			return err
		}
		time.Sleep(10 * patience)
		return nil
	})
	server := asynq.NewServer(options(), asynq.Config{
		Concurrency:              2,
		LogLevel:                 asynq.WarnLevel,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 0 },
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		TaskCheckInterval:        50 * time.Millisecond,
	})
	log.Panic(server.Run(mux))
}

func start() *exec.Cmd {
	worker := exec.Command(os.Args[0], "work")
	worker.Stdout, worker.Stderr = os.Stdout, os.Stderr
	if err := worker.Start(); err != nil {
		log.Panic(err)
	}
	return worker
}

func kill(worker *exec.Cmd) {
	_ = worker.Process.Kill()
	_ = worker.Wait()
}

func until(what string, isSo func() bool) {
	for end := time.Now().Add(patience); !isSo(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			log.Panic("in vain: ", what)
		}
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "work" {
		work()
	}
	client, inspector, store := asynq.NewClient(options()), asynq.NewInspector(options()), connect()
	ctx, keep := context.Background(), asynq.Retention(time.Hour)
	add := func(kind string, payload any, more ...asynq.Option) *asynq.TaskInfo {
		task := asynq.NewTask(kind, must(json.Marshal(payload)), append(more, keep)...)
		return must(client.Enqueue(task))
	}
	done := func(info *asynq.TaskInfo) string {
		var result string
		until("a task is done", func() bool {
			found := must(inspector.GetTaskInfo(info.Queue, info.ID))
			result = string(found.Result)
			return found.State == asynq.TaskStateCompleted
		})
		return result
	}

	worker := start()
	defer func() { kill(worker) }()
	var squares []*asynq.TaskInfo
	for number := range 30 {
		squares = append(squares, add("square", number))
	}
	for number, info := range squares {
		if result := done(info); result != fmt.Sprint(number*number) {
			log.Panic(number, result)
		}
	}
	done(add("lucky", nil, asynq.MaxRetry(3)))
	done(add("square", 9, asynq.ProcessIn(300*time.Millisecond)))
	unique := asynq.NewTask("square", []byte("5"), asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour))
	must(client.Enqueue(unique))
	if _, err := client.Enqueue(unique); !errors.Is(err, asynq.ErrDuplicateTask) {
		log.Panic(err)
	}
	kill(worker)

	// What a worker has not finished is another one's when its lease of half a minute is over.
	worker = start()
	var held []*asynq.TaskInfo
	for number := range 3 {
		held = append(held, add("held", number, asynq.MaxRetry(3)))
	}
	until("a task is under way", func() bool { return store.Exists(ctx, "held:asynq").Val() == 1 })
	kill(worker)
	if os.Getenv("WEIR_HASTE") != "" {
		// As if it were over, of whatever the worker had asked for when it was killed.
		time.Sleep(300 * time.Millisecond)
		for _, lease := range must(store.ZRange(ctx, "asynq:{default}:lease", 0, -1).Result()) {
			must(store.ZAdd(ctx, "asynq:{default}:lease", redis.Z{Member: lease}).Result())
		}
	}
	worker = start()
	for _, info := range held {
		done(info)
	}
	completed, scheduled := must(inspector.ListCompletedTasks("default", asynq.PageSize(100))), must(inspector.ListScheduledTasks("default"))
	if active := must(inspector.ListActiveTasks("default")); len(completed) != 35 || len(scheduled) != 1 || len(active) != 0 {
		log.Panic(len(completed), len(scheduled), len(active))
	}
	if queue := must(inspector.GetQueueInfo("default")); queue.Completed != 35 || queue.Scheduled != 1 || queue.MemoryUsage <= 0 {
		log.Panic(queue.Completed, queue.Scheduled, queue.MemoryUsage)
	}
	fmt.Println("asynq v0.26.0 works")
}
