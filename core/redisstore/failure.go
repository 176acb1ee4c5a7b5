package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
)

// named says in core's words why Redis did not answer.
func named(err error) error {
	if errors.Is(err, core.ErrClosed) || errors.Is(err, context.Canceled) {
		return err
	}
	return &core.StoreError{Failure: failureOf(err), Err: err}
}

func failureOf(err error) core.Failure {
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return core.FailurePool
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return core.FailureTimeout
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return failureOfReply(reply)
	}
	if errors.Is(err, errNotRun) || errors.Is(err, errBadReply) {
		return core.FailureScript
	}
	return failureOfNetwork(err)
}

// prefixes of the errors that Redis and its cluster reply with, which a script passes
// on (https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors).
var prefixes = []struct {
	prefix  string
	failure core.Failure
}{
	{"OOM ", core.FailureMemory},
	{"LOADING ", core.FailureLoading},
	{"READONLY ", core.FailureReadOnly},
	{"CLUSTERDOWN ", core.FailureClusterDown},
	{"MOVED ", core.FailureClusterDown}, // the redirects led nowhere
	{"ASK ", core.FailureClusterDown},
	{"TRYAGAIN ", core.FailureClusterDown},
	{"MASTERDOWN ", core.FailureMasterDown},
	{"NOREPLICAS ", core.FailureNoReplicas},
	{"ERR max number of clients", core.FailureClients},
	{"BUSY ", core.FailureOther},
	{"MISCONF ", core.FailureOther}, // it cannot save to disk, and refuses writes
	{"WRONGTYPE ", core.FailureValue},
	{"SLIDEGATE ", core.FailureValue},
	{"NOPERM ", core.FailureDenied},
	{"NOAUTH ", core.FailureDenied},
	{"WRONGPASS ", core.FailureDenied},
	{"ERR The user executing the script", core.FailureDenied},
	{"ERR AUTH ", core.FailureDenied},
}

func failureOfReply(reply redis.Error) core.Failure {
	text := strings.TrimPrefix(reply.Error(), "ERR Error running script: ")
	for _, p := range prefixes {
		if strings.HasPrefix(text, p.prefix) {
			return p.failure
		}
	}
	if strings.Contains(text, ": SLIDEGATE ") { // behind the place in the script
		return core.FailureValue
	}
	return core.FailureScript
}

func failureOfNetwork(err error) core.Failure {
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNABORTED):
		return core.FailureReset
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return core.FailureRefused
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return core.FailureRefused
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return core.FailureRefused
	}
	return core.FailureOther
}
