package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// parcel is one script call of a trip.
type parcel struct {
	bundles  []*bundle // more than one only if it is packed
	packed   bool      // for many.lua
	question question
	cmd      command
	text     bool // send the script's text
	reply    []int64
	err      error
}

// errNotSent is what a parcel has until it has an answer.
var errNotSent = errors.New("slidegate: the script was not sent")

// send sends the parcels that have not been, and again those whose script the server did
// not know: that it says before it runs anything, so nothing is counted twice.
func (r *road) send(ctx context.Context, parcels []*parcel) {
	todo := parcels[:0:0]
	for _, p := range parcels {
		if p.err == errNotSent {
			todo = append(todo, p)
		}
	}
	for _, bring := range [...]func([]*parcel){bringNone, bringFirst, bringAll} {
		if len(todo) == 0 {
			return
		}
		bring(todo)
		for _, p := range todo {
			p.err = errNotSent
		}
		err := guarded(func() error {
			r.exchange(ctx, todo)
			return nil
		})
		for _, p := range todo {
			if p.err == errNotSent {
				p.err = err
			}
		}
		todo = unknown(todo)
	}
}

// unknown returns the parcels whose script the server did not know.
func unknown(parcels []*parcel) (list []*parcel) {
	for _, p := range parcels {
		if redis.HasErrorPrefix(p.err, "NOSCRIPT") {
			list = append(list, p)
		}
	}
	return list
}

func bringNone([]*parcel) {}

// bringFirst has the first parcel of each script bring its text: then the server knows it
// for those behind.
func bringFirst(parcels []*parcel) {
	brought := map[*script]bool{}
	for _, p := range parcels {
		p.text = !brought[p.question.script]
		brought[p.question.script] = true
	}
}

// bringAll is for a server that forgets scripts faster than that.
func bringAll(parcels []*parcel) {
	for _, p := range parcels {
		p.text = true
	}
}

// exchange has the server answer the parcels: one by itself, more in a pipeline. The
// commands say that they must not be repeated, and go-redis repeats no pipeline with such
// a command (9.23, redis.go, generalProcessPipelineFrom).
func (r *road) exchange(ctx context.Context, parcels []*parcel) {
	for _, p := range parcels {
		// A command of its own each time: a hook may still hold an earlier one.
		p.cmd = p.question.script.command(ctx, p.text, p.question.keys, p.question.args)
	}
	if len(parcels) == 1 {
		parcels[0].reply, parcels[0].err = parcels[0].cmd.through(ctx, r.client)
		return
	}
	pipe := r.client.Pipeline()
	for _, p := range parcels {
		_ = pipe.Process(ctx, p.cmd) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, p := range parcels {
		p.reply, p.err = p.cmd.integers()
	}
}
