package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/limittest"
)

// start runs the service with a store.
func start(t *testing.T, store core.Store) string {
	t.Helper()
	h, err := newService(store)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// ask sends a request with an API key, unless it is "", and returns the response with
// its body.
func ask(t *testing.T, method, url, apiKey string) (*http.Response, string) {
	t.Helper()
	return askBy(t, http.DefaultClient, method, url, apiKey)
}

// from returns a client with another address of this machine.
func from(t *testing.T, addr string) *http.Client {
	t.Helper()
	probe, err := net.Listen("tcp", addr+":0")
	if err != nil {
		t.Skipf("this machine has one loopback address only: %v", err) // macOS
	}
	probe.Close()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func askBy(t *testing.T, client *http.Client, method, url, apiKey string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if apiKey != "" {
		r.Header.Set("X-API-Key", apiKey)
	}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestTheSixthLoginIsRefused(t *testing.T) {
	clock := limittest.NewClock()
	url := start(t, limittest.NewStore(t, clock))
	for i := range 5 {
		res, body := ask(t, "POST", url+"/login", "")
		limittest.Admitted(t, res)
		limittest.Remaining(t, res, int64(4-i))
		if strings.TrimSpace(body) != "welcome" {
			t.Errorf("login %d: %q", i, body)
		}
	}
	clock.Advance(20 * time.Second)
	res, body := ask(t, "POST", url+"/login", "")
	limittest.Refused(t, res, 40*time.Second)
	var refusal struct {
		Error      string
		Limit      string
		RetryAfter int `json:"retry_after"`
	}
	if err := json.Unmarshal([]byte(body), &refusal); err != nil || refusal.Error != "rate_limited" || refusal.Limit != "login" || refusal.RetryAfter != 40 {
		t.Errorf("%q: %+v, %v", body, refusal, err)
	}
	if ct := res.Header.Get("Content-Type"); !strings.HasPrefix(ct, "application/json") {
		t.Errorf("the refusal is %s", ct)
	}
	if res, _ := ask(t, "GET", url+"/", ""); res.StatusCode != http.StatusOK {
		t.Errorf("another route: %s", res.Status)
	}
	clock.Advance(40 * time.Second)
	res, _ = ask(t, "POST", url+"/login", "")
	limittest.Admitted(t, res)
}

func TestEachAddressHasItsLogins(t *testing.T) {
	url := start(t, limittest.NewStore(t, limittest.NewClock()))
	other := from(t, "127.0.0.2")
	for i := range 6 {
		if res, _ := ask(t, "POST", url+"/login", ""); (res.StatusCode == http.StatusOK) != (i < 5) {
			t.Errorf("login %d: %s", i, res.Status)
		}
	}
	if res, body := askBy(t, other, "POST", url+"/login", ""); res.StatusCode != http.StatusOK || strings.TrimSpace(body) != "welcome" {
		t.Errorf("another address: %s %q", res.Status, body)
	}
}

func TestEverythingTogetherHasALooseLimit(t *testing.T) {
	url := start(t, limittest.NewStore(t, limittest.NewClock()))
	for range 300 {
		res, _ := ask(t, "GET", url+"/", "")
		limittest.Admitted(t, res)
	}
	for _, path := range []string{"/", "/api/items/7", "/nothing"} {
		res, body := ask(t, "GET", url+path, "")
		limittest.Refused(t, res, time.Minute)
		if !strings.Contains(body, `"limit":"all"`) {
			t.Errorf("%s is refused with %s", path, body)
		}
	}
}

func TestAKeyHasAThousandRequestsInAnHour(t *testing.T) {
	clock := limittest.NewClock()
	url := start(t, limittest.NewStore(t, clock))
	for range 10 { // a hundred in each minute exceed neither the second's nor the address's limit
		for range 10 {
			for range 10 {
				res, _ := ask(t, "GET", url+"/api/items/7", "mine")
				limittest.Admitted(t, res)
			}
			clock.Advance(6 * time.Second)
		}
	}
	res, body := ask(t, "GET", url+"/api/items/7", "mine")
	limittest.Refused(t, res, 50*time.Minute)
	if !strings.Contains(body, `"limit":"key-hour"`) {
		t.Errorf("refused with %s", body)
	}
}

func TestInstancesShareTheLimitsInRedis(t *testing.T) {
	mini := miniredis.RunT(t)
	var urls []string
	for range 2 {
		store, err := openStore(mini.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		urls = append(urls, start(t, store))
	}
	for i := range 6 {
		if res, _ := ask(t, "POST", urls[i%2]+"/login", ""); (res.StatusCode == http.StatusOK) != (i < 5) {
			t.Errorf("login %d: %s", i, res.Status)
		}
	}
}

func TestEachAPIKeyHasItsQuota(t *testing.T) {
	url := start(t, limittest.NewStore(t, limittest.NewClock()))
	for i := range 11 {
		res, body := ask(t, "GET", url+"/api/items/7", "mine")
		if want := map[bool]int{true: 200, false: 429}[i < 10]; res.StatusCode != want {
			t.Errorf("request %d: %s", i, res.Status)
		}
		if i == 10 && !strings.Contains(body, `"limit":"key-second"`) {
			t.Errorf("refused with %s", body)
		}
	}
	if res, body := ask(t, "GET", url+"/api/items/7", "another"); res.StatusCode != 200 || body != "item 7\n" {
		t.Errorf("another key: %s %q", res.Status, body)
	}
}

// Inventing API keys gains nothing: the address has a quota over all of them.
func TestInventedKeysShareTheAddress(t *testing.T) {
	url := start(t, limittest.NewStore(t, limittest.NewClock()))
	admitted := 0
	for i := range 250 {
		if res, _ := ask(t, "GET", url+"/api/items/1", "invented-"+string(rune('a'+i%26))+string(rune('a'+i/26))); res.StatusCode == 200 {
			admitted++
		}
	}
	if admitted != 200 {
		t.Errorf("%d requests with invented keys were admitted, want 200", admitted)
	}
}

func TestTheProgram(t *testing.T) {
	mini := miniredis.RunT(t)
	for _, shared := range []string{"", mini.Addr(), "redis://" + mini.Addr()} {
		ctx, stop := context.WithCancel(t.Context())
		r, w := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- command(ctx, []string{"-addr", "127.0.0.1:0", "-redis", shared}, w) }()
		text := make([]byte, 4096)
		n, err := r.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		url := regexp.MustCompile(`serving on (http://\S+)`).FindSubmatch(text[:n])
		if url == nil {
			t.Fatalf("no URL in %s", text[:n])
		}
		if res, body := ask(t, "GET", string(url[1])+"/", ""); res.StatusCode != 200 || body != "hello\n" {
			t.Errorf("%s %q", res.Status, body)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	}
}

func TestStoppingFinishesWhatRuns(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			stop()
			for { // until nothing is accepted any more
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					break
				}
				conn.Close()
			}
			io.WriteString(w, "finished")
		}))
	}()
	if res, body := ask(t, "GET", "http://"+addr, ""); res.StatusCode != http.StatusOK || body != "finished" {
		t.Errorf("%s %q", res.Status, body)
	}
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestBadFlags(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for text, args := range map[string][]string{
		"stray": {"stray"}, "-addr": {"-addr", busy.Addr().String()}, "scheme": {"-redis", "http://x"}, "-nothing": {"-nothing"},
	} {
		if err := command(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
