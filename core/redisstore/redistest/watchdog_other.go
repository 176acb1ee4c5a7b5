//go:build !unix

package redistest

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

type watchdog struct{ pid int }

func supported() error {
	return fmt.Errorf("slidegate: redis-server is started on a Unix system only, this is %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func watch(string, string, ...string) (*watchdog, error) { return nil, supported() }

func (*watchdog) ended(time.Duration) bool { return true }
func (*watchdog) end(bool) error           { return supported() }
func (*watchdog) pause() error             { return supported() }
func (*watchdog) resume() error            { return supported() }
