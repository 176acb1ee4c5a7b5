package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// How long Heal tries for the proxy's port: a search for a free port, in
	// another program too, takes each for a moment.
	relistenTimeout = 2 * time.Second
	// Accept fails when there are no file descriptors left; some may come back.
	acceptPause = 5 * time.Millisecond
)

// Proxy is a TCP proxy on a free port of 127.0.0.1, which passes bytes on and,
// when told to, fails in one of the ways that networks and servers fail in: Delay,
// Stall, BlackHole, Refuse, Reset, DropReplies and CutReply. These may be called at
// any time, return at once and add up. All but Reset last until Heal, for the
// connections there are and for new ones. What the proxy is writing in the moment
// of the call may still get through.
//
// To each connection of a client belongs one to the target. Where the target cannot
// be reached, the client's is reset; when the target closes it, so does the proxy,
// after the bytes that came before. The proxy takes in all that is sent and keeps
// in memory what it has not passed on, without a bound.
//
// The methods may be called by several goroutines.
type Proxy struct {
	target string
	port   int
	open   context.Context // done when the proxy is closed
	cancel context.CancelFunc
	owned  sync.WaitGroup // every goroutine of the proxy

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused, and after Close
	links    map[*link]struct{}
	accepted int64
	closed   bool
	faults   faults
	changed  chan struct{} // closed, and replaced, when the faults change
}

// StartProxy starts a proxy for the TCP address target, host:port. Nothing need
// listen there yet. The proxy runs in this program; Close ends it.
//
// Errors: a target that is no host:port; no free port.
func StartProxy(target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("slidegate: target of the proxy: %w", err)
	}
	p := &Proxy{target: target, links: map[*link]struct{}{}, changed: make(chan struct{})}
	var err error
	for range portAttempts {
		if p.port, err = freePort(false); err != nil {
			break
		}
		if p.listener, err = net.Listen("tcp", p.Addr()); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("slidegate: port of the proxy: %w", err)
	}
	p.open, p.cancel = context.WithCancel(context.Background())
	listener := p.listener
	p.owned.Go(func() { p.accept(listener) })
	return p, nil
}

// NeedProxy starts a proxy as StartProxy does, for one test, and closes it at the
// end of the test. It fails the test on an error.
func NeedProxy(tb TB, target string) *Proxy {
	tb.Helper()
	p, err := StartProxy(target)
	need(tb, err)
	atEnd(tb, p.Close)
	return p
}

// Addr returns the TCP address of the proxy, 127.0.0.1:port. It never changes.
func (p *Proxy) Addr() string { return address(p.port) }

// Accepted returns how many connections have been accepted so far. A client may
// be connected a moment before it counts.
func (p *Proxy) Accepted() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open returns how many of the accepted connections neither the client nor the
// proxy has closed. A client's closing counts once the proxy has noticed it.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if !l.left {
			n++
		}
	}
	return n
}

// Close closes all connections and frees the port, and returns when all
// goroutines of the proxy have ended. Further calls do nothing.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.stopListening()
	p.cancel()
	p.endLinks(false)
	p.owned.Wait()
	if err != nil {
		return fmt.Errorf("slidegate: close the proxy: %w", err)
	}
	return nil
}

// accept makes links of the connections to a listener until that is closed.
func (p *Proxy) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			p.admit(listener, conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(acceptPause)
		}
	}
}

func (p *Proxy) admit(listener net.Listener, conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != listener {
		hangUp(conn, true)
		return
	}
	p.accepted++
	l := &link{proxy: p, client: conn, over: make(chan struct{}), lost: p.faults.lose}
	p.links[l] = struct{}{}
	p.owned.Go(l.run)
}

// stopListening closes the listener, if there is one.
func (p *Proxy) stopListening() error {
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	if listener == nil {
		return nil
	}
	return listener.Close()
}

// listen opens the port of the proxy again, unless it is open.
func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", p.Addr())
	if err != nil {
		return err
	}
	p.listener = listener
	p.owned.Go(func() { p.accept(listener) })
	return nil
}

// endLinks ends all links there are.
func (p *Proxy) endLinks(reset bool) {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.end(reset)
	}
}
