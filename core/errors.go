package core

import "errors"

var (
	// ErrClosed is returned by stores and limiters after their Close.
	ErrClosed = errors.New("slidegate: closed")

	// ErrNoDecision is in every error that says that the store was asked and gave
	// no decision. The store's own error is in it too, for errors.Is and errors.As.
	ErrNoDecision = errors.New("slidegate: no decision")

	// ErrShared is returned by Reset when a full Memory counts the key together
	// with others.
	ErrShared = errors.New("slidegate: the key is counted together with others, since the store is full")

	// ErrNeverFits is returned by Wait for a cost above the N of a limit, and is in
	// the error for a cost above MaxUnits.
	ErrNeverFits = errors.New("slidegate: the cost is greater than a whole window holds")

	// ErrTooLate is returned by Wait when ctx ends before the cost would fit.
	ErrTooLate = errors.New("slidegate: the cost does not fit before the deadline")

	// ErrEnded is returned when a reservation is ended that was ended before, or
	// was never made.
	ErrEnded = errors.New("slidegate: the reservation has ended already")

	// ErrLapsed is returned when a reservation is ended after at least one of its
	// limits had let it go: its window had passed, or the key was reset. The other
	// limits have ended it all the same.
	ErrLapsed = errors.New("slidegate: the reservation has lapsed")
)
