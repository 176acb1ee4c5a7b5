package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// screen prints what happens, line by line, with the time since the step began. It
// may be used by several goroutines: the log comes from those of the service.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	steps  int
	began  time.Time
	logged int // lines of the log in this step
}

// step begins a step.
func (s *screen) step(title string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps++
	s.began, s.logged = time.Now(), 0
	fmt.Fprintf(s.out, "\n%d. %s\n\n", s.steps, title)
	head := strings.Repeat(" ", 22)
	for _, p := range policies {
		head += fmt.Sprintf("/%-*v", cellWidth-1, p)
	}
	fmt.Fprintln(s.out, strings.TrimRight(head, " "))
}

const (
	cellWidth = 27
	textWidth = 3 * cellWidth
)

// say prints what happened, in as many lines as it needs.
func (s *screen) say(what, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.print(what, text)
}

func (s *screen) print(what, text string) {
	lead := fmt.Sprintf("  %5.2f s   %-11s", time.Since(s.began).Seconds(), what)
	for _, line := range wrap(text, textWidth) {
		fmt.Fprintln(s.out, strings.TrimRight(lead+line, " "))
		lead = strings.Repeat(" ", len(lead))
	}
}

// answers prints a request to each route.
func (s *screen) answers(all []answer) {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "%-17s%5.1f ms  ", a, a.took.Seconds()*1000)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "  %5.2f s   %-11s%s\n", time.Since(s.began).Seconds(), "requests", strings.TrimRight(b.String(), " "))
}

// logger returns a logger whose lines are printed as they come, without their time,
// once a step has begun.
func (s *screen) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(logLines{s}, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

type logLines struct{ *screen }

func (l logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.steps > 0 {
		l.logged++
		l.print("log", string(line))
	}
	return len(line), nil
}

// loggedLines returns how many lines were logged in this step.
func (s *screen) loggedLines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged
}

// wrap breaks text between words into lines of width bytes, where it can.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
