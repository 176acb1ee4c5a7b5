//go:build !linux

package redistest

import (
	"errors"
	"fmt"
	"runtime"
)

func newClock(string) (*Clock, []string, error) {
	return nil, nil, fmt.Errorf("slidegate: the clock of a server is moved on Linux only, this is %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
