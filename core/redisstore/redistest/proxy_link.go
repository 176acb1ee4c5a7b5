package redistest

import (
	"bytes"
	"net"
	"time"
)

// readSize is how much is read, and passed on, at a time.
const readSize = 32 << 10

// link is a connection of a client and the one to the target that belongs to it.
type link struct {
	proxy  *Proxy
	client net.Conn
	over   chan struct{} // closed at the end

	// The mutex of the proxy guards these.
	server net.Conn // nil until there is one
	ended  bool
	lost   bool // nothing is passed on, ever
	left   bool // the client has closed its end
}

// run connects to the target and passes bytes on until the link ends.
func (l *link) run() {
	if l.isLost() {
		l.start(&flow{link: l, from: l.client})
		return
	}
	server, err := new(net.Dialer).DialContext(l.proxy.open, "tcp", l.proxy.target)
	if err != nil {
		l.end(true)
		return
	}
	if !l.join(server) {
		hangUp(server, false)
		return
	}
	l.start(&flow{link: l, from: l.client, to: server})
	l.start(&flow{link: l, from: server, to: l.client, replies: true})
}

func (l *link) start(f *flow) {
	f.more = make(chan struct{}, 1)
	l.proxy.owned.Go(f.take)
	l.proxy.owned.Go(f.give)
}

func (l *link) isLost() bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	return l.lost
}

// join gives the link its second connection, unless it has ended.
func (l *link) join(server net.Conn) bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.server = server
	return !l.ended
}

// end closes both connections, with RST if asked for.
func (l *link) end(reset bool) {
	l.proxy.mu.Lock()
	first, server := !l.ended, l.server
	l.ended = true
	delete(l.proxy.links, l)
	l.proxy.mu.Unlock()
	if !first {
		return
	}
	close(l.over)
	hangUp(l.client, reset)
	if server != nil {
		hangUp(server, reset)
	}
}

// hangUp closes a connection. Errors tell no more than that it is closed already.
func hangUp(conn net.Conn, reset bool) {
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// flow is one direction of a link.
type flow struct {
	link     *link
	from, to net.Conn // to is nil if the link was lost from the beginning
	replies  bool     // from the target to the client
	more     chan struct{}
	queue    []chunk // guarded by the mutex of the proxy
}

// chunk is what was read at once; no data means the end of the connection.
type chunk struct {
	data []byte
	at   time.Time
}

// step is what is done with a chunk.
type step int

const (
	stepWait   step = iota // for a change, or for its time to come
	stepPass               // it on
	stepShut               // the connection for writing: no more will come
	stepDrop               // it, and close the link
	stepCut                // it after one byte, and reset the link
	stepFinish             // the flow: the link has ended
)

// take reads what comes, whatever the faults are: only give minds them.
func (f *flow) take() {
	buffer := make([]byte, readSize)
	for {
		n, err := f.from.Read(buffer)
		if n > 0 {
			f.push(chunk{data: bytes.Clone(buffer[:n]), at: time.Now()})
		}
		if err != nil {
			f.push(chunk{at: time.Now()})
			return
		}
	}
}

func (f *flow) push(c chunk) {
	f.link.proxy.mu.Lock()
	f.queue = append(f.queue, c)
	if c.data == nil && !f.replies {
		f.link.left = true
	}
	f.link.proxy.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// give passes on what has been taken. It needs not mind an error of Write: the
// flow that reads from that connection sees its end.
func (f *flow) give() {
	for {
		data, s := f.next()
		switch s {
		case stepPass:
			_, _ = f.to.Write(data)
		case stepShut:
			// The target may have replies for a client that reads on.
			if tcp, ok := f.to.(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
			return
		case stepCut:
			_, _ = f.to.Write(data[:1])
			f.link.end(true)
			return
		case stepDrop:
			f.link.end(false)
			return
		default:
			return
		}
	}
}

// next waits until there is something to do.
func (f *flow) next() ([]byte, step) {
	for {
		data, s, due, changed := f.look(time.Now())
		if s != stepWait {
			return data, s
		}
		var timer <-chan time.Time
		if due > 0 {
			timer = time.After(due)
		}
		select {
		case <-f.more:
		case <-changed:
		case <-timer:
		case <-f.link.over:
		}
	}
}

// look returns what to do now, and with what. If it is to wait, due is when the
// next chunk may pass, 0 if only a change can tell.
func (f *flow) look(now time.Time) (data []byte, s step, due time.Duration, changed <-chan struct{}) {
	p := f.link.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case f.link.ended:
		return nil, stepFinish, 0, nil
	case f.link.lost && f.link.left:
		return nil, stepDrop, 0, nil
	case f.link.lost:
		f.queue = nil
		return nil, stepWait, 0, p.changed
	case len(f.queue) == 0 || p.faults.stall:
		return nil, stepWait, 0, p.changed
	}
	c := f.queue[0]
	if due := c.at.Add(p.faults.delay).Sub(now); due > 0 {
		return nil, stepWait, due, p.changed
	}
	f.queue = f.queue[1:]
	return c.data, f.fate(c, &p.faults), 0, nil
}

// fate tells what happens to a chunk whose time has come.
func (f *flow) fate(c chunk, now *faults) step {
	switch {
	case c.data == nil && f.replies:
		return stepDrop
	case c.data == nil:
		return stepShut
	case f.replies && now.left > 0:
		now.left--
		return now.spoil
	}
	return stepPass
}
