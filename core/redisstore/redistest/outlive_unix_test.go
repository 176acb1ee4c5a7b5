//go:build unix

package redistest_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// childEnv makes the test binary the program whose servers must not outlive it.
const childEnv = "REDISTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := child(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// family is what a child has started.
type family struct {
	Servers []int    // process ids
	Dirs    []string // one more than servers: one server has been killed
	Other   int      // a program that has nothing to do with servers and lives on
}

// child starts servers in all states, says so, and ends without a word to them
// when its standard input does.
func child() error {
	cluster, err := redistest.StartCluster(2, 0)
	if err != nil {
		return err
	}
	nodes := cluster.Nodes()
	for range 3 {
		s, err := redistest.Start()
		if err != nil {
			return err
		}
		nodes = append(nodes, s)
	}
	other := exec.Command("sleep", "60")
	if err := errors.Join(nodes[2].Pause(), nodes[3].Kill(), other.Start()); err != nil {
		return err
	}
	f := family{Other: other.Process.Pid}
	for _, s := range nodes {
		f.Dirs = append(f.Dirs, s.Dir())
		if s.PID() != 0 {
			f.Servers = append(f.Servers, s.PID())
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
		return err
	}
	_, err = io.ReadAll(os.Stdin)
	return err
}

// TestNoServerOutlivesItsProgram holds for running, paused and killed servers and
// for clusters, while another child of the program lives on.
func TestNoServerOutlivesItsProgram(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	ends := map[string]func(p *exec.Cmd, stdin io.Closer) error{
		"SIGINT":          func(p *exec.Cmd, _ io.Closer) error { return p.Process.Signal(syscall.SIGINT) },
		"SIGTERM":         func(p *exec.Cmd, _ io.Closer) error { return p.Process.Signal(syscall.SIGTERM) },
		"SIGKILL":         func(p *exec.Cmd, _ io.Closer) error { return p.Process.Kill() },
		"SIGINT to group": func(p *exec.Cmd, _ io.Closer) error { return syscall.Kill(-p.Process.Pid, syscall.SIGINT) },
		"return":          func(_ *exec.Cmd, stdin io.Closer) error { return stdin.Close() },
	}
	// All start at once: it takes a cluster 2 s.
	programs := map[string]*program{}
	for name := range ends {
		programs[name] = startProgram(t)
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			p := programs[name]
			f := p.family(t)
			for _, pid := range f.Servers {
				if !runs(pid) {
					t.Errorf("server %d has ended before its program", pid)
				}
			}
			if err := end(p.cmd, p.stdin); err != nil {
				t.Fatal(err)
			}
			// How it ends is the case's matter, and it may be a signal.
			_ = p.cmd.Wait()
			eventually(t, f.remains)
		})
	}
}

// program is a child that starts servers.
type program struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	stderr strings.Builder
}

// startProgram runs the test binary as a child, in a process group of its own.
func startProgram(t *testing.T) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), childEnv+"=1")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = &p.stderr
	var errs [3]error
	p.stdin, errs[0] = p.cmd.StdinPipe()
	p.stdout, errs[1] = p.cmd.StdoutPipe()
	errs[2] = p.cmd.Start()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return p
}

// family waits until the servers of the program are up.
func (p *program) family(t *testing.T) family {
	t.Helper()
	var f family
	line, err := bufio.NewReader(p.stdout).ReadBytes('\n')
	if err := errors.Join(err, json.Unmarshal(line, &f)); err != nil {
		t.Fatalf("program says %q: %v: %s", line, errors.Join(err, p.cmd.Process.Kill(), p.cmd.Wait()), &p.stderr)
	}
	t.Cleanup(func() { _ = syscall.Kill(f.Other, syscall.SIGKILL) })
	if len(f.Servers) != 4 || len(f.Dirs) != 5 {
		t.Errorf("program has %+v, want 4 servers in 5 directories", f)
	}
	return f
}

// remains names what is left of servers, directories and watchdogs.
func (f family) remains() error {
	for _, pid := range f.Servers {
		if runs(pid) {
			return fmt.Errorf("server %d runs", pid)
		}
	}
	for _, dir := range f.Dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("directory %s is there: %v", dir, err)
		}
		if names := naming(dir); len(names) > 0 {
			return fmt.Errorf("watchdogs of %s run: %v", dir, names)
		}
	}
	return nil
}

// runs tells if a process is there and has not ended; one that nobody has waited
// for has.
func runs(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// naming returns the processes with dir among their arguments, where there is a
// /proc.
func naming(dir string) []string {
	var found []string
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), dir+"\x00") {
			found = append(found, path)
		}
	}
	return found
}

func TestServerEndsThoughItsWatchdogWasKilled(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	s, err := redistest.Start()
	if err != nil {
		t.Fatal(err)
	}
	pid := s.PID()
	if err := syscall.Kill(redistest.WatchdogPID(s), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("Stop says %v, want that the watchdog was killed", err)
	}
	eventually(t, func() error { return family{Servers: []int{pid}, Dirs: []string{s.Dir()}}.remains() })
}

func TestStopEndsProcessesAndRemovesTheDirectory(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*redistest.Server) error{
		"running": func(*redistest.Server) error { return nil },
		"paused":  (*redistest.Server).Pause,
		"killed":  (*redistest.Server).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Need(t)
			f := family{Servers: []int{s.PID()}, Dirs: []string{s.Dir()}}
			if err := errors.Join(before(s), s.Stop()); err != nil {
				t.Fatal(err)
			}
			if err := f.remains(); err != nil {
				t.Errorf("after Stop %v", err)
			}
			if err := s.Stop(); err != nil {
				t.Errorf("second Stop: %v", err)
			}
		})
	}
}

// eventually waits for f to return nil, for at most 5 s.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	err := f()
	for end := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(end); err = f() {
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
}
