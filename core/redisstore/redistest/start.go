package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	startTimeout = 5 * time.Second
	// Others may take a port between the look and the start.
	portAttempts = 20
	// The path of a Unix socket has 104 bytes on BSD and macOS, 108 on Linux, with
	// the zero at the end.
	socketPathMax = 103
	// How much of a log goes into an error.
	quotedLog = 4 << 10
)

// ErrNotInstalled means that no redis-server is on the PATH.
var ErrNotInstalled = errors.New("slidegate: redis-server is not on the PATH")

// plan is what a server is started with.
type plan struct {
	options []string
	wait    time.Duration                            // for the first answer, 0 for startTimeout
	bus     bool                                     // a cluster node, which needs a second port
	prefix  func(directory string) ([]string, error) // the command to run redis-server with, may be nil
}

func (p plan) start() (_ *Server, err error) {
	binary, err := locate(p.options)
	if err != nil {
		return nil, err
	}
	s := &Server{plan: p}
	if s.dir, err = directory(); err != nil {
		return nil, fmt.Errorf("slidegate: directory of redis-server: %w", err)
	}
	s.socket = filepath.Join(s.dir, "redis.sock")
	if s.home, err = watch(s.dir, s.log()); err != nil {
		return nil, errors.Join(fmt.Errorf("slidegate: watchdog of redis-server: %w", err), os.RemoveAll(s.dir))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	s.command = []string{binary}
	if p.prefix != nil {
		prefix, err := p.prefix(s.dir)
		if err != nil {
			return nil, err
		}
		s.command = append(prefix, binary)
	}
	for range portAttempts {
		if s.port, err = freePort(p.bus); err != nil {
			return nil, fmt.Errorf("slidegate: redis-server: %w", err)
		}
		if err = s.launch(); err == nil || !strings.Contains(err.Error(), "Address already in use") {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// locate finds redis-server and refuses what it would not take for options.
func locate(options []string) (string, error) {
	if err := supported(); err != nil {
		return "", err
	}
	if len(options) > 0 && !strings.HasPrefix(options[0], "--") {
		return "", fmt.Errorf("slidegate: args begins with %q: give options of redis-server, as in \"--maxmemory\", \"10mb\"", options[0])
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	return filepath.Abs(binary)
}

// directory makes one whose path is short enough for a socket in it.
func directory() (string, error) {
	parent, err := filepath.Abs(os.TempDir())
	if err != nil {
		return "", err
	}
	if len(filepath.Join(parent, "redistest-0123456789", "redis.sock")) > socketPathMax {
		parent = "/tmp"
	}
	return os.MkdirTemp(parent, "redistest-")
}

// arguments puts what the caller may override before the options of the caller,
// and what must hold after them: redis-server takes the last of each.
func (s *Server) arguments() []string {
	a := append([]string{"--save", "", "--appendonly", "no"}, s.plan.options...)
	return append(a,
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1",
		"--unixsocket", s.socket, "--unixsocketperm", "700",
		"--dir", s.dir, "--logfile", "", "--daemonize", "no", "--supervised", "no")
}

// launch runs redis-server and waits until it answers. It asks over the socket
// in the server's own directory: on the port, another server might answer that
// was faster to take it.
func (s *Server) launch() error {
	var before int64
	if info, err := os.Stat(s.log()); err == nil {
		before = info.Size()
	}
	run, err := watch(s.dir, s.log(), append(s.command[:len(s.command):len(s.command)], s.arguments()...)...)
	if err != nil {
		return fmt.Errorf("slidegate: start redis-server: %w", err)
	}
	wait := cmp.Or(s.plan.wait, startTimeout)
	began, problem := time.Now(), ""
	for !s.answers() {
		if run.ended(5 * time.Millisecond) {
			problem = "redis-server ended at once"
			break
		}
		if time.Since(began) > wait {
			problem = fmt.Sprintf("redis-server does not answer after %v", wait)
			break
		}
	}
	if problem == "" {
		s.run = run
		return nil
	}
	err = run.end(true)
	return errors.Join(fmt.Errorf("slidegate: %s; its log: %s", problem, s.quote(before)), err)
}

// answers tells if the server takes commands. One that wants a password first
// does.
func (s *Server) answers() bool {
	_, err := ask(s.socket, time.Second, "PING")
	var reply replyError
	return err == nil || errors.As(err, &reply) && strings.HasPrefix(string(reply), "NOAUTH")
}

func (s *Server) log() string { return filepath.Join(s.dir, "redis.log") }

// quote returns the end of the log, from the given place on.
func (s *Server) quote(from int64) string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	text = text[min(int(from), len(text)):]
	return strings.TrimSpace(string(text[max(0, len(text)-quotedLog):]))
}
