package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// sharedRedis is the Redis that the instances share.
type sharedRedis struct {
	addr, about string
	stop        func() error
}

// openRedis returns the Redis at addr. Without one it starts a redis-server, or a
// stand-in in this process if there is none to start.
func openRedis(addr string) (sharedRedis, error) {
	if addr != "" {
		return sharedRedis{addr, "", func() error { return nil }}, nil
	}
	server, err := redistest.Start()
	switch {
	case errors.Is(err, redistest.ErrNotInstalled), errors.Is(err, errors.ErrUnsupported):
		return standIn()
	case err != nil:
		return sharedRedis{}, err
	}
	return sharedRedis{server.Addr(), "", server.Stop}, nil
}

func standIn() (sharedRedis, error) {
	m, err := miniredis.Run()
	if err != nil {
		return sharedRedis{}, fmt.Errorf("start a stand-in for Redis: %w", err)
	}
	return sharedRedis{m.Addr(), " (a stand-in in memory, since redis-server is not installed)", func() error { m.Close(); return nil }}, nil
}

// instance is a process of this program that serves.
type instance struct {
	addr string
	cmd  *exec.Cmd
	end  context.CancelFunc
}

// startInstance runs this program once more, as an instance.
func startInstance(ctx context.Context, redis string) (*instance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(ctx)
	in := &instance{cmd: exec.CommandContext(ctx, self, serveArg, redis), end: end}
	stdin, err := in.cmd.StdinPipe()
	if err != nil {
		end()
		return nil, err
	}
	stdout, err := in.cmd.StdoutPipe()
	if err != nil {
		end()
		return nil, err
	}
	// It ends when its input does, and is killed if it has not by then.
	in.cmd.Cancel, in.cmd.WaitDelay = stdin.Close, 3*time.Second
	in.cmd.Stderr = os.Stderr
	if err := in.cmd.Start(); err != nil {
		end()
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		in.stop()
		return nil, fmt.Errorf("it gave no address: %w", err)
	}
	in.addr = strings.TrimSpace(line)
	return in, nil
}

func (in *instance) pid() int { return in.cmd.Process.Pid }

// stop ends the process and waits until it is gone. How it ends tells nothing:
// an interrupt from the keyboard reaches it too.
func (in *instance) stop() {
	in.end()
	_ = in.cmd.Wait()
}
