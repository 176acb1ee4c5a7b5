package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	// Ports are below those that systems give to outgoing connections (from
	// 32768 on Linux, from 49152 by RFC 6335 section 6): else a client that dials
	// a killed server again and again gets its port for its own end one day, is
	// connected to itself, and the server cannot come back.
	firstPort = 10000
	lastPort  = 22767
	// A cluster node listens for the other nodes on its port plus this much.
	busOffset = 10000
)

// freePort picks a port that nobody listens on; the bus port too, if asked for.
func freePort(bus bool) (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if free(port) && (!bus || free(port+busOffset)) {
			return port, nil
		}
	}
	return 0, errors.New("no free loopback port found")
}

func free(port int) bool {
	l, err := net.Listen("tcp", address(port))
	return err == nil && l.Close() == nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
