package redistest

import (
	"bufio"
	"strings"
	"time"
)

// Ask sends a command to the server's Unix socket.
func Ask(s *Server, wait time.Duration, words ...string) (string, error) {
	return ask(s.socket, wait, words...)
}

// ReadReply reads one reply of a server.
func ReadReply(text string) (string, error) {
	return readReply(bufio.NewReader(strings.NewReader(text)))
}

// StartWithin is Start with another bound on the time.
func StartWithin(wait time.Duration, args ...string) (*Server, error) {
	return plan{options: args, wait: wait}.start()
}
