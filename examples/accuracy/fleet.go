package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/slidegate/slidegate/core"
)

// instance is one of several that share servers.
type instance struct {
	orders  io.WriteCloser
	to      *gob.Encoder
	from    *gob.Decoder
	dismiss func() error // waits for its end
}

func newInstance(orders io.WriteCloser, answers io.Reader, dismiss func() error) *instance {
	return &instance{orders, gob.NewEncoder(orders), gob.NewDecoder(answers), dismiss}
}

// hire starts an instance. The end of ctx ends it.
type hire func(ctx context.Context) (*instance, error)

// hireProcess runs this program once more. If this process dies, the other reads
// the end of its orders and ends too.
func hireProcess(ctx context.Context) (*instance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, workerArg)
	cmd.Stderr, cmd.WaitDelay = os.Stderr, time.Second
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return newInstance(orders, answers, cmd.Wait), nil
}

// hireHere runs an instance in this process, on stores that open opens.
func hireHere(open func(servers) (core.Store, error)) hire {
	return func(ctx context.Context) (*instance, error) {
		in, orders := io.Pipe()
		answers, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			err := work(ctx, in, out, open)
			in.CloseWithError(io.ErrClosedPipe)
			out.CloseWithError(err)
			ended <- err
		}()
		return newInstance(orders, answers, func() error { return <-ended }), nil
	}
}

// fleet is instances that do the same jobs at the same time.
type fleet []*instance

// hireAll starts an instance for each of the servers given.
func hireAll(ctx context.Context, how hire, where ...servers) (f fleet, err error) {
	for _, s := range where {
		i, err := how(ctx)
		if err != nil {
			return nil, errors.Join(err, f.dismiss())
		}
		f = append(f, i)
		if err := i.to.Encode(s); err != nil {
			return nil, errors.Join(fmt.Errorf("tell an instance its servers: %w", err), f.dismiss())
		}
	}
	return f, nil
}

// do has all instances do the jobs, and returns what each of them heard in each.
func (f fleet) do(jobs []job) ([][]tally, error) {
	tallies, errs := make([][]tally, len(f)), make([]error, len(f))
	var all sync.WaitGroup
	for i, in := range f {
		all.Go(func() {
			own := make([]job, len(jobs))
			for k, j := range jobs {
				j.Seed = j.Seed*1_000_003 + uint64(i)
				own[k] = j
			}
			if errs[i] = in.to.Encode(own); errs[i] == nil {
				errs[i] = in.from.Decode(&tallies[i])
			}
			if errs[i] != nil {
				errs[i] = fmt.Errorf("instance %d: %w", i+1, errs[i])
			}
		})
	}
	all.Wait()
	return tallies, errors.Join(errs...)
}

// dismiss ends all instances and waits until they are gone.
func (f fleet) dismiss() error {
	var errs []error
	for _, in := range f {
		errs = append(errs, in.orders.Close())
	}
	for _, in := range f {
		errs = append(errs, in.dismiss())
	}
	return errors.Join(errs...)
}
