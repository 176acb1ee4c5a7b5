package echomw_test

import (
	"net"
	"testing"
)

// peer is the address of httptest's requests, as a range.
func peer(t *testing.T) *net.IPNet {
	t.Helper()
	_, n, err := net.ParseCIDR("192.0.2.1/32")
	if err != nil {
		t.Fatal(err)
	}
	return n
}
