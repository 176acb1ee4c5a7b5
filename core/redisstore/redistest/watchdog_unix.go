//go:build unix

package redistest

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed watchdog.sh
var watchdogScript string

// watchdog is a shell in a session of its own, so that no signal to this
// program's group reaches it. It ends a command and removes a directory when
// this program ends. PR_SET_PDEATHSIG would be Linux only, and follows the
// thread that forked: https://github.com/golang/go/issues/27505.
type watchdog struct {
	shell *exec.Cmd
	hold  *os.File // the shell waits for the end of this pipe
	alive *os.File // ends with the command
	pid   int      // of the command, 0 for none
}

// supported is nil where servers can be started.
func supported() error { return nil }

// watch starts the command, or none, under a watchdog for directory.
func watch(directory, log string, command ...string) (*watchdog, error) {
	in, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	alive, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, hold.Close())
	}
	defer out.Close()
	shell := exec.Command("/bin/sh", append([]string{"-c", watchdogScript, "watchdog", directory, log}, command...)...)
	shell.Dir = "/"
	shell.Stdin, shell.Stdout = in, out
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := shell.Start(); err != nil {
		return nil, errors.Join(err, hold.Close(), alive.Close())
	}
	w := &watchdog{shell: shell, hold: hold, alive: alive}
	if err := out.Close(); err != nil {
		return nil, errors.Join(err, w.end(false))
	}
	line, err := bufio.NewReader(alive).ReadString('\n')
	if err == nil && len(command) > 0 {
		w.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watchdog said %q: %w", line, err), w.end(false))
	}
	return w, nil
}

// ended waits for the command to end, for at most d.
func (w *watchdog) ended(d time.Duration) bool {
	if w.alive.SetReadDeadline(time.Now().Add(d)) != nil {
		return true
	}
	_, err := w.alive.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// end ends the command and the watchdog, and waits for both. The directory is
// removed unless it is to be left.
func (w *watchdog) end(leave bool) error {
	if leave {
		// A shell that is gone reads no word; Wait tells.
		_, _ = w.hold.WriteString("leave\n")
	}
	err := errors.Join(w.hold.Close(), w.alive.Close())
	exit := w.shell.Wait()
	if exit != nil && w.pid != 0 {
		// Somebody ended the shell before it could end the command.
		if kill := syscall.Kill(w.pid, syscall.SIGKILL); !errors.Is(kill, syscall.ESRCH) {
			err = errors.Join(err, kill)
		}
	}
	return errors.Join(err, exit)
}

// pause stops the command, and returns when it stands still.
func (w *watchdog) pause() error {
	if err := syscall.Kill(w.pid, syscall.SIGSTOP); err != nil {
		return err
	}
	for end := time.Now().Add(time.Second); !standsStill(w.pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("process %d runs on after SIGSTOP", w.pid)
		}
	}
	return nil
}

func (w *watchdog) resume() error { return syscall.Kill(w.pid, syscall.SIGCONT) }

// standsStill reads the state after the name in parentheses, proc_pid_stat(5).
// Without /proc the signal counts as delivered.
func standsStill(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, found := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	return !found || strings.HasPrefix(state, "T")
}
