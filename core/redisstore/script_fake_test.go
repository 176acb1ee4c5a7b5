package redisstore_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// lost is the answer of a server that closes the connection instead.
const lost = ""

// server is a Redis that answers what a test wants, and remembers what was asked
// apart from handshakes.
type server struct {
	addr   string
	mu     sync.Mutex
	seen   [][]string
	answer func(words []string) string
	slots  func() string // of CLUSTER SLOTS
}

// serve starts a server that is alone in its cluster.
func serve(tb testing.TB, answer func(words []string) string) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &server{addr: l.Addr().String(), answer: answer}
	s.slots = func() string { return slotsOf(s) }
	var conns sync.WaitGroup
	done := make(chan struct{})
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				stop := make(chan struct{})
				defer close(stop)
				go func() {
					select {
					case <-done:
					case <-stop:
					}
					c.Close()
				}()
				s.talk(c)
			})
		}
	})
	tb.Cleanup(func() {
		l.Close()
		close(done)
		conns.Wait()
	})
	return s
}

// slotsOf returns the answer to CLUSTER SLOTS that divides them among the servers.
func slotsOf(all ...*server) string {
	reply := fmt.Sprintf("*%d\r\n", len(all))
	for i, s := range all {
		host, port, _ := net.SplitHostPort(s.addr)
		reply += fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*3\r\n$%d\r\n%s\r\n:%s\r\n$2\r\nid\r\n",
			16384*i/len(all), 16384*(i+1)/len(all)-1, len(host), host, port)
	}
	return reply
}

func (s *server) talk(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		words, err := readWords(r)
		if err != nil {
			return
		}
		reply := "+OK\r\n"
		switch strings.ToLower(words[0]) {
		case "hello":
			reply = "%1\r\n+proto\r\n:" + words[1] + "\r\n"
		case "client", "ping", "readonly":
		case "cluster":
			reply = s.slots()
		default:
			s.mu.Lock()
			s.seen = append(s.seen, words)
			s.mu.Unlock()
			if reply = s.answer(words); reply == lost {
				return
			}
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

func readWords(r *bufio.Reader) ([]string, error) {
	n, err := readLen(r, '*')
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		size, err := readLen(r, '$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		words[i] = string(b[:size])
	}
	return words, nil
}

func readLen(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("got %q, want %c", line, kind)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// asked returns the commands that came, without their arguments.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, words := range s.seen {
		names = append(names, strings.ToLower(words[0]))
	}
	return names
}

func (s *server) words() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// always answers everything the same.
func always(reply string) func([]string) string {
	return func([]string) string { return reply }
}

const three = "*3\r\n:1\r\n:-2\r\n:9007199254740993\r\n"
