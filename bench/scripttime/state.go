package main

import (
	"fmt"
	"time"
)

// state is what the contenders find when they are called.
type state struct {
	name    string
	keys    int // in rotation
	live    int // units that are counted before each measurement, give or take a tenth
	n       int64
	window  time.Duration
	calls   int  // of one contender in one round
	refused bool // the calls are refused
	fresh   bool // each call finds a key that is not there
	// flow has calls come until a window is full of them, so that in the
	// measurement units leave as fast as they come.
	flow bool
	// fill has the keys filled anew when the calls have added a tenth of live.
	fill bool
	// slow divides the number of rounds, where it takes long to bring keys into the state.
	slow int
}

func states(tiny bool) []state {
	if tiny {
		return []state{
			room(200, 2), refused(20, 2), flow(4*time.Millisecond, "20"), first(20), manyKeys(30),
		}
	}
	long := flow(500*time.Millisecond, "10,000")
	long.slow = 4
	return []state{
		room(100, 100), room(1000, 100), room(10_000, 100),
		flow(5*time.Millisecond, "100"), flow(50*time.Millisecond, "1,000"), long,
		refused(100, 100), refused(1000, 100), refused(10_000, 100),
		first(1000), manyKeys(10_000),
	}
}

func room(live, keys int) state {
	return state{
		name: fmt.Sprintf("allowed, %d live and room, %d keys", live, keys),
		keys: keys, live: live, n: 2 * int64(live), window: 10 * time.Minute, calls: 10 * keys, fill: true,
	}
}

func refused(n, keys int) state {
	return state{
		name: fmt.Sprintf("refused, full with %d, %d keys", n, keys),
		keys: keys, live: n, n: int64(n), window: 10 * time.Minute, calls: 10 * keys, refused: true,
	}
}

func flow(window time.Duration, live string) state {
	return state{
		name: fmt.Sprintf("allowed in a steady flow, about %s live, window %v, 1 key", live, window),
		keys: 1, n: 1_000_000, window: window, calls: 1000, flow: true,
	}
}

func first(keys int) state {
	return state{
		name: "allowed, first call on a new key",
		keys: keys, n: 100, window: 10 * time.Minute, calls: keys, fresh: true,
	}
}

func manyKeys(keys int) state {
	return state{
		name: fmt.Sprintf("allowed, 10 live, %d keys", keys),
		keys: keys, live: 10, n: 10_000, window: 10 * time.Minute, calls: min(keys, 1000),
	}
}
