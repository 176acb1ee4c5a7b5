package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// busyLimits are the limits whose memory and time are measured, 1000 per second.
func busyLimits(n int64) []core.Limit {
	limit := core.PerSecond(n)
	limits := []core.Limit{limit}
	for _, slots := range []int{10, 20, 50, 60, 100} {
		limits = append(limits, limit.Slotted(slots))
	}
	return append(limits, limit.Hybrid(10, 0.8), limit.Hybrid(60, 0.8))
}

// loads are the units per key and window for which memory is measured.
var loads = []int{1, 10, 100, 1000}

// printMemory measures what a key takes when its units came evenly over the
// window.
func printMemory(out io.Writer, markdown bool) error {
	t := &table{
		title: "Bytes of heap per key of the memory store, after so many units within the window\n(N = 1000 per second, the units evenly spread; index and rounding up included):",
	}
	first := []string{"limit"}
	for _, units := range loads {
		first = append(first, fmt.Sprintf("%d", units))
	}
	t.add(first...)
	c := defaultSetting(1)
	for _, limit := range busyLimits(1000) {
		cells := []string{gateRow(c, openMemory, limit).name}
		for _, units := range loads {
			bytes, err := bytesPerKey(limit, units, 1_000_000/max(units, 20))
			if err != nil {
				return err
			}
			cells = append(cells, strconv.FormatUint(bytes, 10))
		}
		t.add(cells...)
	}
	t.print(out, markdown)
	return nil
}

// bytesPerKey counts units units on each of so many keys, over one window.
func bytesPerKey(limit core.Limit, units, keys int) (bytes uint64, err error) {
	g, err := newGate(memoryOf(keys), limit)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	names := make([]keyfunc.Key, keys)
	for i := range names {
		names[i] = keyfunc.User(strconv.Itoa(i))
	}
	before := heap()
	step := core.Instant(limit.Window()/time.Microsecond) / core.Instant(units)
	for i := range units {
		g.set(start + core.Instant(i)*step)
		for _, k := range names {
			d, err := g.limiter.Allow(context.Background(), k)
			if err != nil {
				return 0, err
			}
			if !d.Allowed {
				return 0, fmt.Errorf("unit %d of %d was refused", i+1, units)
			}
		}
	}
	after := heap()
	runtime.KeepAlive(names)
	return (after - min(after, before)) / uint64(keys), nil
}

// heap returns the bytes in use once garbage is collected.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
