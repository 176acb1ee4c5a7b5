package redistest

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

var (
	// ErrDown means that a server does not run: after Kill, until Restart.
	ErrDown = errors.New("slidegate: redis-server is down")
	// ErrStopped means that a server has been ended for good.
	ErrStopped = errors.New("slidegate: redis-server has been stopped")
)

// Server is a redis-server process. Its methods may be called by several
// goroutines; those that end or start the process take turns.
type Server struct {
	plan    plan
	dir     string
	socket  string
	command []string
	port    int
	home    *watchdog // of the directory, also while the server is down

	mu      sync.Mutex
	run     *watchdog // of the process, nil while it is down
	stopped bool
}

// Start starts a redis-server and returns when it answers, which takes about
// 20 ms, and at most 5 s. It listens on a free port of 127.0.0.1 and on a Unix
// socket, and has a directory of its own. It keeps nothing on disk unless args
// say so.
//
// The args are options of redis-server, such as "--maxmemory", "10mb". Those for
// the port, the address, the socket, the directory and the log are set after
// them and cannot be changed.
//
// Errors: ErrNotInstalled; errors.ErrUnsupported where there is no Unix; an error
// with the end of the server's log when it does not come up.
//
// The server ends with this program, however that ends. Call Stop to end it
// earlier.
func Start(args ...string) (*Server, error) { return plan{options: args}.start() }

// Addr returns the TCP address, 127.0.0.1:port. It stays the same after Restart.
func (s *Server) Addr() string { return address(s.port) }

// Socket returns the path of the server's Unix socket.
func (s *Server) Socket() string { return s.socket }

// Dir returns the directory of the server: redis.log is in it.
func (s *Server) Dir() string { return s.dir }

// PID returns the id of the server's process, 0 while it is down.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return 0
	}
	return s.run.pid
}

// Stop ends the server, also a paused one, and removes its directory. Further
// calls do nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	err := errors.Join(s.down(), s.home.end(false), os.RemoveAll(s.dir))
	if err != nil {
		return fmt.Errorf("slidegate: stop redis-server: %w", err)
	}
	return nil
}

// Kill ends the server with SIGKILL. It stays down until Restart. A server that
// is down already is left alone.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.down(); err != nil {
		return fmt.Errorf("slidegate: kill redis-server: %w", err)
	}
	return nil
}

// Restart starts the server again on the same port, in the same directory and
// with the same options, and returns when it answers. One that runs is killed
// first. Its data and scripts are gone, unless the options keep the data.
// After Stop it returns ErrStopped.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if err := s.down(); err != nil {
		return fmt.Errorf("slidegate: restart redis-server: %w", err)
	}
	return s.launch()
}

// Pause stops the server with SIGSTOP: it accepts connections, and answers
// nobody. It returns ErrDown when the server is down.
func (s *Server) Pause() error { return s.signal("pause", (*watchdog).pause) }

// Resume lets a paused server go on, with SIGCONT. It then runs the commands
// that have come in meanwhile. It returns ErrDown when the server is down.
func (s *Server) Resume() error { return s.signal("resume", (*watchdog).resume) }

func (s *Server) signal(name string, send func(*watchdog) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return ErrDown
	}
	if err := send(s.run); err != nil {
		return fmt.Errorf("slidegate: %s redis-server: %w", name, err)
	}
	return nil
}

// down ends the process, if there is one, and leaves the directory.
func (s *Server) down() error {
	if s.run == nil {
		return nil
	}
	run := s.run
	s.run = nil
	return run.end(true)
}
