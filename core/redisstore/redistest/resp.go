package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// bulkMax is far above what the commands used here are answered with.
const bulkMax = 1 << 20

// replyError is an error that the server replied, without the leading dash.
type replyError string

func (e replyError) Error() string { return string(e) }

// ask sends one command over a connection of its own and returns its reply.
// It knows simple strings, errors, integers and bulk strings of RESP2:
// https://redis.io/docs/latest/develop/reference/protocol-spec/.
func ask(socket string, wait time.Duration, words ...string) (string, error) {
	conn, err := net.DialTimeout("unix", socket, wait)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(conn))
}

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", errors.New("empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", replyError(rest)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return "", err
		}
		if n < 0 {
			return "", nil
		}
		if n > bulkMax {
			return "", fmt.Errorf("bulk string of %d bytes is longer than %d", n, bulkMax)
		}
		bulk := make([]byte, n+len("\r\n"))
		_, err = io.ReadFull(r, bulk)
		return string(bulk[:n]), err
	}
	return "", fmt.Errorf("reply %q is of a kind that is not read here", line)
}
