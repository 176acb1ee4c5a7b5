package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Client is what the store needs of go-redis. *redis.Client, *redis.ClusterClient
// and *redis.Ring have it. What wraps one of them must hand Process the command it
// was given, for it is the command that says that it must not be repeated; and it
// must run the command before Process returns, which a redis.Pipeliner does not.
type Client interface {
	redis.Scripter
	Process(ctx context.Context, cmd redis.Cmder) error
}

// errNotRun is returned if the client took a command, gave no error and did not run
// it: it is a Pipeliner, which only queues, or a Ring or ClusterClient with a
// MaxRetries or MaxRedirects below -1, whose loops then end before they begin.
var errNotRun = errors.New("slidegate: the client did not run the script and gave no error: " +
	"is it a Pipeliner, or are its MaxRetries or MaxRedirects below -1?")

// script is a Lua script, which servers know by its SHA-1.
type script struct {
	src string
	sha string // hexadecimal, as EVALSHA wants it
}

func newScript(src string) *script {
	sum := sha1.Sum([]byte(src))
	return &script{src: src, sha: hex.EncodeToString(sum[:])}
}

// run has the server of the first key run the script, and returns the integers of
// its reply. It sends EVALSHA, and EVAL if the server does not know the script: it
// looks for it before it runs anything, and a script cannot call EVALSHA, so
// NOSCRIPT says that nothing was counted. Nothing else leads to a second sending:
// see command. A server may forget scripts at any time, at a restart, a failover or
// SCRIPT FLUSH, and from Redis 7.4 on when EVAL has brought more than 500 others
// (https://github.com/redis/redis/pull/13108), so this is not only about the first
// call.
//
// keys and args must stay as they are until run returns; args may point to strings.
// run makes three allocations of its own: the arguments, the command, and the
// integers. All else goes as pointers, which an interface holds without any.
func (s *script) run(ctx context.Context, c Client, keys []string, args []any) ([]int64, error) {
	reply, err := s.command(ctx, false, keys, args).through(ctx, c)
	if err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return reply, err
	}
	// A command of its own: a hook that exports traces may still hold the first one.
	return s.command(ctx, true, keys, args).through(ctx, c)
}

// command returns EVALSHA, or EVAL if it is to bring the script's text.
func (s *script) command(ctx context.Context, text bool, keys []string, args []any) command {
	words := make([]any, 0, 3+len(keys)+len(args))
	if text {
		words = append(words, "eval", &s.src, len(keys))
	} else {
		words = append(words, "evalsha", &s.sha, len(keys))
	}
	for i := range keys {
		words = append(words, &keys[i])
	}
	cmd := command{redis.NewIntSliceCmd(ctx, append(words, args...)...)}
	if len(keys) > 0 {
		// Else a Ring and a ClusterClient would print the number of keys into a string
		// to find out whether there are any, for every call.
		cmd.SetFirstKeyPos(3)
	}
	// Else a ClusterClient fetches the reply of COMMAND, 90 kB, from some node, and
	// holds a lock over it that all commands wait for, with a limit of 5 s of its own
	// (osscluster_router.go, routeAndRun). It is of use to commands that are spread
	// over shards, which a script is not.
	cmd.SetStepCount(1)
	return cmd
}

// command is EVALSHA or EVAL, which the client must not send again after it lost
// the reply: the server may have run it. By default go-redis would send it up to
// four times, and a server that is slow to answer would count it as often.
//
// What go-redis 9.23 does in spite of NoRetry repeats nothing that ran:
//   - MOVED and ASK are followed. The server that answers so has run nothing.
//   - READONLY has a ClusterClient ask another node, and LOADING as well if its
//     option ReadOnly is set: the server refused the script, or its first write, and
//     a script of which a write was refused has written nothing, as no other can
//     have passed.
//   - A pool that was closed, or a connection found unusable before the command was
//     written, is replaced.
//
// TRYAGAIN, CLUSTERDOWN, LOADING, a failed dial and a pool without connections are
// returned at once, though they could be repeated: the budget of a limiter is
// shorter than what they wait for.
//
// The value holds one pointer, so that an interface holds it without an allocation.
type command struct{ *redis.IntSliceCmd }

// through has the client run the command, and returns the integers of the reply.
func (c command) through(ctx context.Context, client Client) ([]int64, error) {
	if err := client.Process(ctx, c); err != nil {
		return nil, err
	}
	return c.integers()
}

// integers returns the reply once the client has it.
func (c command) integers() ([]int64, error) {
	reply, err := c.Result() // waits, where Process only hands on to another goroutine
	if err == nil && reply == nil {
		return nil, errNotRun
	}
	return reply, err
}

// NoRetry is asked by Client, ClusterClient and Ring before they repeat a command,
// by the pipeline that follows ASK, and by an AutoPipeliner.
func (command) NoRetry() bool { return true }

// Clone keeps what makes it a command: the promoted method would lose it.
func (c command) Clone() redis.Cmder {
	return command{c.IntSliceCmd.Clone().(*redis.IntSliceCmd)}
}
