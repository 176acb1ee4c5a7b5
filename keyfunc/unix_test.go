//go:build unix

package keyfunc_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

func TestRealUnixSocketServer(t *testing.T) {
	plain := keyfunc.ByIP()
	proxied := keyfunc.ByIP(keyfunc.XForwardedFor(), keyfunc.TrustUnixPeer())
	socket := filepath.Join(t.TempDir(), "app.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	type keys struct{ plain, proxied keyfunc.Key }
	answers := make(chan keys, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		q := keyfunc.NewRequest(r, nil, nil)
		answers <- keys{read(t, plain, q), read(t, proxied, q)}
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	defer func() {
		server.Close()
		<-done
	}()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	for forwarded, proxiedKey := range map[string]keyfunc.Key{"198.51.100.7": ip("198.51.100.7"), "": keyfunc.NoAddress(), "junk": keyfunc.NoAddress()} {
		r, err := http.NewRequest(http.MethodGet, "http://app/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := <-answers; got.plain != keyfunc.NoAddress() || got.proxied != proxiedKey {
			t.Errorf("forwarded for %q: keys %v and %v", forwarded, got.plain, got.proxied)
		}
	}
}
