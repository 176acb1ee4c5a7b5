// Package record finds out what a store sends to Redis, so that it can be sent
// again, thousands of times in pipelines.
package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"

	"github.com/slidegate/slidegate/bench/internal/server"
)

// Command is EVALSHA with its arguments.
type Command struct {
	Words []any
	Keys  []string
}

// With returns a copy that has the word at index i replaced, and words added.
func (c Command) With(i int, word any, more ...any) Command {
	c.Words = append(slices.Clone(c.Words), more...)
	c.Words[i] = word
	return c
}

// Arg returns the index of the script's ARGV[i] in Words.
func (c Command) Arg(i int) int { return 2 + len(c.Keys) + i }

// New returns the command that runs a script that the server knows.
func New(sha string, keys []string, args ...any) Command {
	words := []any{"evalsha", sha, len(keys)}
	for _, k := range keys {
		words = append(words, k)
	}
	return Command{append(words, args...), keys}
}

// Recorder is a store whose commands are noted.
type Recorder struct {
	store *redisstore.Store
	tap   *tap
}

// tap is a client that keeps a copy of the last EVALSHA.
type tap struct {
	*redis.Client
	last []any
}

func (t *tap) Process(ctx context.Context, cmd redis.Cmder) error {
	if strings.EqualFold(cmd.Name(), "evalsha") {
		t.last = t.last[:0:0]
		for _, w := range cmd.Args() {
			if p, ok := w.(*string); ok {
				w = *p // what it points to is used again
			}
			t.last = append(t.last, w)
		}
	}
	return t.Client.Process(ctx, cmd)
}

// NewRecorder returns a recorder over the client.
func NewRecorder(c *redis.Client) (*Recorder, error) {
	t := &tap{Client: c}
	s, err := redisstore.New(t, redisstore.Logger(server.Quiet), redisstore.NoRefusalCache())
	return &Recorder{s, t}, err
}

// Do makes the call, which counts as any other, and returns what was sent. It is
// not safe for concurrent use.
func (r *Recorder) Do(ctx context.Context, c *core.Call) (Command, error) {
	r.tap.last = nil
	if err := r.store.Do(ctx, c); err != nil {
		return Command{}, err
	}
	words := r.tap.last
	if len(words) < 3 {
		return Command{}, errors.New("bench: the store sent no EVALSHA")
	}
	n, ok := words[2].(int)
	if !ok || len(words) < 3+n {
		return Command{}, fmt.Errorf("bench: EVALSHA with %v keys in %d words", words[2], len(words))
	}
	cmd := Command{Words: words}
	for _, k := range words[3 : 3+n] {
		cmd.Keys = append(cmd.Keys, fmt.Sprint(k))
	}
	return cmd, nil
}
