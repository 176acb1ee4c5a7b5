package fallback_test

import (
	"runtime/debug"
	"slices"
)

// raceDetector reports whether the race detector is on: it makes sync.Pool forget at
// random, so that counting allocations means nothing.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
