package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
	"github.com/slidegate/slidegate/nethttp"
)

func benchLimiter(b *testing.B, limits ...core.Limit) *core.Limiter {
	b.Helper()
	l, err := core.New(core.Config{Limits: limits})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return l
}

func BenchmarkAllow(b *testing.B) {
	for _, bench := range []struct {
		name   string
		limits []core.Limit
	}{
		{"exact/admitted", []core.Limit{core.Per(1e12, time.Millisecond)}},
		{"exact/refused", []core.Limit{core.PerHour(10)}},
		{"slotted/admitted", []core.Limit{core.Per(1e12, time.Second).Slotted(10)}},
		{"slotted/refused", []core.Limit{core.PerHour(10).Slotted(10)}},
		{"hybrid/admitted", []core.Limit{core.Per(1e12, time.Second).Hybrid(10, 0)}},
		{"two/admitted", []core.Limit{core.Per(1e12, time.Millisecond), core.PerDay(1e12).Slotted(48)}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			l := benchLimiter(b, bench.limits...)
			key := keyfunc.User("someone-with-20-byte")
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Allow(ctx, key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAllowManyKeys(b *testing.B) {
	l := benchLimiter(b, core.PerMinute(1e12))
	keys := make([]keyfunc.Key, 100_000)
	for i := range keys {
		keys[i] = keyfunc.User("user-" + strconv.Itoa(i))
	}
	ctx := context.Background()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i = (i + 7919) % len(keys) {
			if _, err := l.Allow(ctx, keys[i]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// blank is a ResponseWriter that keeps nothing between requests.
type blank struct{ h http.Header }

func (w blank) Header() http.Header         { return w.h }
func (w blank) Write(b []byte) (int, error) { return len(b), nil }
func (w blank) WriteHeader(int)             {}

func BenchmarkMiddleware(b *testing.B) {
	for _, bench := range []struct {
		name  string
		limit core.Limit
	}{{"admitted", core.Per(1e12, time.Millisecond)}, {"refused", core.PerHour(1)}} {
		b.Run(bench.name, func(b *testing.B) {
			h := nethttp.Middleware(benchLimiter(b, bench.limit))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			r := httptest.NewRequest("GET", "/", nil)
			w := blank{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				h.ServeHTTP(w, r)
			}
		})
	}
}
