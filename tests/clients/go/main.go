// go-redis against Weir; see ../README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func check[T comparable](got T, err error, wanted T) {
	if err != nil || got != wanted {
		panic(fmt.Sprintf("%v, %v instead of %v", got, err, wanted))
	}
}

func connect(protocol int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:     "127.0.0.1:" + os.Getenv("WEIR_PORT"),
		Username: os.Getenv("WEIR_USER"),
		Password: os.Getenv("WEIR_SECRET"),
		Protocol: protocol,
	})
}

func run(protocol int) {
	client := connect(protocol)
	defer client.Close()
	key := func(name string) string { return fmt.Sprintf("{go%d}:%s", protocol, name) }

	pong, err := client.Ping(ctx).Result()
	check(pong, err, "PONG")
	ok, err := client.Set(ctx, key("a"), "1", 0).Result()
	check(ok, err, "OK")
	value, err := client.Get(ctx, key("a")).Result()
	check(value, err, "1")
	if err := client.Get(ctx, key("none")).Err(); !errors.Is(err, redis.Nil) {
		panic(err)
	}
	set, err := client.SetNX(ctx, key("a"), "2", 0).Result()
	check(set, err, false)
	number, err := client.IncrBy(ctx, key("a"), 5).Result()
	check(number, err, 6)
	float, err := client.IncrByFloat(ctx, key("f"), 1.5).Result()
	check(float, err, 1.5)
	number, err = client.Append(ctx, key("s"), "hello").Result()
	check(number, err, 5)
	value, err = client.GetRange(ctx, key("s"), 1, 2).Result()
	check(value, err, "el")
	ok, err = client.MSet(ctx, key("m1"), "x", key("m2"), "y").Result()
	check(ok, err, "OK")
	several, err := client.MGet(ctx, key("m1"), key("none"), key("m2")).Result()
	check(fmt.Sprint(several), err, "[x <nil> y]")
	number, err = client.Exists(ctx, key("m1"), key("none")).Result()
	check(number, err, 1)
	value, err = client.Type(ctx, key("m1")).Result()
	check(value, err, "string")
	found := 0
	keys := client.Scan(ctx, 0, key("m*"), 10).Iterator()
	for keys.Next(ctx) {
		found++
	}
	check(found, keys.Err(), 2)
	number, err = client.Del(ctx, key("m1"), key("none")).Result()
	check(number, err, 1)

	ok, err = client.Set(ctx, key("t"), "v", 100*time.Second).Result()
	check(ok, err, "OK")
	left, err := client.TTL(ctx, key("t")).Result()
	check(left > 97*time.Second && left <= 100*time.Second, err, true)
	done, err := client.Persist(ctx, key("t")).Result()
	check(done, err, true)
	left, err = client.TTL(ctx, key("t")).Result()
	check(left, err, -1)

	number, err = client.SetBit(ctx, key("b"), 7, 1).Result()
	check(number, err, 0)
	number, err = client.BitCount(ctx, key("b"), nil).Result()
	check(number, err, 1)

	pipe := client.Pipeline()
	for i := range 200 {
		pipe.Set(ctx, key(fmt.Sprint("p", i)), i, 0)
		pipe.Get(ctx, key(fmt.Sprint("p", i)))
	}
	replies, err := pipe.Exec(ctx)
	check(len(replies), err, 400)
	for i := range 200 {
		check(replies[2*i+1].(*redis.StringCmd).Val(), nil, fmt.Sprint(i))
	}

	var last *redis.IntCmd
	_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, key("tx"))
		last = pipe.Incr(ctx, key("tx"))
		return nil
	})
	check(last.Val(), err, 2)
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		client.Incr(ctx, key("tx"))
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Incr(ctx, key("tx"))
			return nil
		})
		return err
	}, key("tx"))
	if err != redis.TxFailedErr {
		panic(fmt.Sprint("what was watched had changed: ", err))
	}
	number, err = client.Exists(ctx, key("tx")).Result()
	check(number, err, 1)

	if err := client.Incr(ctx, key("s")).Err(); err == nil || !strings.Contains(err.Error(), "not an integer") {
		panic(fmt.Sprint("text was incremented: ", err))
	}

	// A connection that the server closed is made again, logged in.
	victim := connect(protocol)
	defer victim.Close()
	id, err := victim.ClientID(ctx).Result()
	check(id > 0, err, true)
	check(victim.Do(ctx, "QUIT").Err() == nil, nil, true)
	value, err = victim.Get(ctx, key("s")).Result()
	if err != nil {
		value, err = victim.Get(ctx, key("s")).Result()
	}
	check(value, err, "hello")
}

func main() {
	run(2)
	run(3)
	fmt.Println("go-redis works")
}
