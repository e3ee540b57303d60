// What programs do with go-redis, at the port that is the argument.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

func check(what string, got, wanted any, err error) {
	if err != nil || !reflect.DeepEqual(got, wanted) {
		panic(fmt.Sprintf("%s: %v, not %v: %v", what, got, wanted, err))
	}
}

func work(protocol int) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
	defer client.Close()
	check("flushall", client.FlushAll(ctx).Val(), "OK", nil)
	set, err := client.SetNX(ctx, "key", "value", time.Minute).Result()
	check("setnx", set, true, err)
	fields, err := client.HSet(ctx, "hash", "one", 1, "two", 2.5).Result()
	check("hset", fields, int64(2), err)
	all, err := client.HGetAll(ctx, "hash").Result()
	check("hgetall", all, map[string]string{"one": "1", "two": "2.5"}, err)
	client.RPush(ctx, "list", "a", "b", "c")
	list, err := client.LRange(ctx, "list", 0, -1).Result()
	check("lrange", list, []string{"a", "b", "c"}, err)
	client.ZAdd(ctx, "scores", redis.Z{Score: 1.5, Member: "a"}, redis.Z{Score: -1, Member: "b"})
	ranked, err := client.ZRangeWithScores(ctx, "scores", 0, -1).Result()
	check("zrange", ranked, []redis.Z{{Score: -1, Member: "b"}, {Score: 1.5, Member: "a"}}, err)
	client.SAdd(ctx, "set", "x", "y")
	has, err := client.SMIsMember(ctx, "set", "x", "z").Result()
	check("smismember", has, []bool{true, false}, err)
	popped := make(chan []string, 1)
	go func() { popped <- client.BLPop(ctx, 0, "queue").Val() }()
	client.LPush(ctx, "queue", "element")
	check("blpop", <-popped, []string{"queue", "element"}, nil)
	_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "n")
		pipe.HIncrBy(ctx, "hash", "one", 41)
		return nil
	})
	one, _ := client.HGet(ctx, "hash", "one").Result()
	check("transaction", one, "42", err)
	if err := client.LPush(ctx, "hash", "x").Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		panic(fmt.Sprint("a hash is no list: ", err))
	}
}

// What programs do with the cluster client of three servers.
func workInCluster(addresses []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
	defer client.Close()
	for number := 0; number < 300; number++ {
		key := fmt.Sprint("key:", number)
		check("set", client.Set(ctx, key, number, 0).Val(), "OK", nil)
		value, err := client.Get(ctx, key).Int()
		check("get", value, number, err)
	}
	commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := 0; number < 300; number++ {
			pipe.Incr(ctx, fmt.Sprint("key:", number))
		}
		return nil
	})
	check("pipeline", len(commands), 300, err)
	for number, command := range commands {
		check("incr", command.(*redis.IntCmd).Val(), int64(number+1), command.Err())
	}
	var masters int32
	err = client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		atomic.AddInt32(&masters, 1)
		return master.Ping(ctx).Err()
	})
	check("masters", masters, int32(3), err)
	size, err := client.DBSize(ctx).Result()
	check("dbsize", size, int64(300), err)
	_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "{tag}a", 1, 0)
		pipe.Set(ctx, "{tag}b", 2, 0)
		return nil
	})
	values, _ := client.MGet(ctx, "{tag}a", "{tag}b").Result()
	check("transaction", values, []any{"1", "2"}, err)
	client.ZAdd(ctx, "{z}a", redis.Z{Score: 1, Member: "x"})
	stored, err := client.ZUnionStore(ctx, "{z}c", &redis.ZStore{Keys: []string{"{z}a", "{z}b"}}).Result()
	check("zunionstore", stored, int64(1), err)
}

func main() {
	if len(os.Args) > 2 {
		workInCluster(os.Args[2:])
		fmt.Println("done")
		return
	}
	work(2)
	work(3)
	fmt.Println("done")
}
