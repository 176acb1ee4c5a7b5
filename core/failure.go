package core

import (
	"errors"
	"fmt"
	"net"
)

// Failure says why a store did not decide, in the words of decisions, logs and
// metrics.
type Failure uint8

// The failures. All up to FailureOther are outages: the store is out of order, and
// asking it again later may help. The others are faults of the program, of its
// rights or of what lies under its keys: they concern single calls and stay until
// somebody mends them.
const (
	// NoFailure: the store decided.
	NoFailure Failure = iota
	// FailureTimeout: no answer within the budget.
	FailureTimeout
	// FailureRefused: nobody listens at the store's address, or it cannot be found.
	FailureRefused
	// FailureReset: the connection broke.
	FailureReset
	// FailurePool: all connections of the client were busy for too long.
	FailurePool
	// FailureMemory: the store has no room ("OOM").
	FailureMemory
	// FailureLoading: the store reads its data after a start.
	FailureLoading
	// FailureReadOnly: the server was demoted to a replica.
	FailureReadOnly
	// FailureClusterDown: the cluster does not serve the key.
	FailureClusterDown
	// FailureMasterDown: a replica has lost its master.
	FailureMasterDown
	// FailureNoReplicas: too few replicas keep up with the master.
	FailureNoReplicas
	// FailureClients: the server takes no more connections.
	FailureClients
	// FailureOther: any other outage.
	FailureOther

	// FailureValue: there is something under a key that no store has written.
	FailureValue
	// FailureScript: a script failed, or the call was none that the store can answer.
	FailureScript
	// FailureDenied: the user may not do what the store does, or is not known.
	FailureDenied
)

var failureNames = [...]string{
	"none", "timeout", "refused", "reset", "pool_timeout", "oom", "loading", "readonly", "clusterdown", "masterdown",
	"noreplicas", "maxclients", "other", "wrong_value", "script", "denied",
}

// Failures returns all failures, for metrics that want to know them in advance.
func Failures() []Failure {
	all := make([]Failure, 0, len(failureNames)-1)
	for f := range len(failureNames) - 1 {
		all = append(all, Failure(f+1))
	}
	return all
}

// String returns the failure in one word, such as "timeout".
func (f Failure) String() string {
	if int(f) < len(failureNames) {
		return failureNames[f]
	}
	return fmt.Sprintf("Failure(%d)", uint8(f))
}

// Outage reports whether the store is out of order, rather than the call.
func (f Failure) Outage() bool { return f > NoFailure && f <= FailureOther }

// StoreError is the error of a store that says why it did not decide.
type StoreError struct {
	Failure Failure
	Err     error
}

// Error returns the text of Err.
func (e *StoreError) Error() string {
	if e.Err == nil {
		return "slidegate: the store does not answer: " + e.Failure.String()
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *StoreError) Unwrap() error { return e.Err }

// FailureOf returns why the store gave err. It is FailureOther for errors that do
// not say, and NoFailure for nil.
func FailureOf(err error) Failure {
	if err == nil {
		return NoFailure
	}
	if e, ok := errors.AsType[*StoreError](err); ok {
		return e.Failure
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return FailureTimeout
	}
	return FailureOther
}
