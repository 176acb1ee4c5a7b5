package core

import "time"

// Instant is a moment on the clock of the store that decided, in microseconds
// since the Unix epoch. The zero Instant means that there is no such moment:
// nothing is counted, or a cost would never fit.
//
// Microseconds are what Redis tells with TIME, and what fits a float64 of its
// scripts exactly until the year 2255.
type Instant int64

// InstantOf converts a time, rounding down to the microsecond.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Time converts to a time in the local zone; the zero Instant gives the zero time.
func (t Instant) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t))
}

// IsZero reports whether t is no moment at all.
func (t Instant) IsZero() bool { return t == 0 }

// Add returns t + d, d rounded towards zero to the microsecond.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d/time.Microsecond) }

// Sub returns the duration t - u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t-u) * time.Microsecond }

// unixCeil returns the first whole second of the Unix epoch that is not before t.
func (t Instant) unixCeil() int64 { return ceilSeconds(int64(t)) }

// ceilSeconds rounds microseconds up to whole seconds.
func ceilSeconds(micros int64) int64 {
	s := micros / 1e6
	if micros%1e6 > 0 {
		s++
	}
	return s
}
