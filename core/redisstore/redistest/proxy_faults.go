package redistest

import (
	"fmt"
	"net"
	"time"
)

// faults is what a proxy does to bytes. The zero value passes them on.
type faults struct {
	delay time.Duration
	stall bool
	lose  bool // on new links; the old ones have been marked
	spoil step // stepDrop or stepCut
	left  int  // replies still to be spoiled
}

// Delay passes every byte on d after it came in, in each direction, so that a
// reply comes 2d later. Order is kept, and any number of requests may be under
// way. Connecting takes no longer, closing does. A further call counts for what is
// under way too; 0 or less means no delay.
func (p *Proxy) Delay(d time.Duration) { p.change(func(f *faults) { f.delay = d }) }

// Stall holds all bytes back, in both directions, until Heal passes them on. So it
// does with the end of a connection: what a client sent before it gave up and
// closed its connection reaches the target after Heal, and is executed late.
func (p *Proxy) Stall() { p.change(func(f *faults) { f.stall = true }) }

// BlackHole loses all bytes, in both directions, those held back by Stall or Delay
// too, and closes nothing: connections look alive and are silent, though the target
// ends. They stay so after Heal, until the client closes them. New connections are
// accepted, do not reach the target, and stay silent after Heal as well.
func (p *Proxy) BlackHole() {
	p.change(func(f *faults) {
		f.lose = true
		for l := range p.links {
			l.lost = true
		}
	})
}

// Refuse closes all connections, and refuses new ones: nobody listens on the port.
// Heal listens on it again.
func (p *Proxy) Refuse() {
	// It fails only where Refuse or Close was first.
	_ = p.stopListening()
	p.endLinks(false)
}

// Reset ends all connections with RST, in both directions. Bytes that have not been
// passed on are lost. New connections work, so there is nothing to heal.
func (p *Proxy) Reset() { p.endLinks(true) }

// DropReplies loses the next n replies: the requests reach the target, but as soon
// as it sends anything on a connection, that is lost and the connection closed. So
// n connections are closed. Each n replaces what is left of the one before and of
// CutReply; 0 or less loses none.
//
// The proxy does not read the protocol: all that the target sends is a reply, one
// to the greeting of a new connection too.
func (p *Proxy) DropReplies(n int) { p.spoil(stepDrop, n) }

// CutReply passes on one byte of the next reply, whichever connection it is on, and
// then ends that connection with RST. It replaces what is left of DropReplies.
func (p *Proxy) CutReply() { p.spoil(stepCut, 1) }

func (p *Proxy) spoil(s step, n int) { p.change(func(f *faults) { f.spoil, f.left = s, n }) }

// Heal undoes all faults: it passes on what Stall and Delay hold back, and listens
// on the port again if it was to refuse connections. What has been lost or closed
// remains so.
//
// Errors: net.ErrClosed after Close; the port has been taken by another program,
// and was not free for 2 s.
func (p *Proxy) Heal() error {
	p.change(func(f *faults) { *f = faults{} })
	err := retry(time.Now().Add(relistenTimeout), p.listen)
	if err == nil && p.open.Err() != nil {
		err = net.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("slidegate: heal the proxy: %w", err)
	}
	return nil
}

// change changes the faults and lets all flows look again.
func (p *Proxy) change(f func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.faults)
	close(p.changed)
	p.changed = make(chan struct{})
}
