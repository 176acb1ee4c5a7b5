package fallback_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/fallback"
	"github.com/slidegate/slidegate/keyfunc"
)

// instant is a primary that admits at once: what is left is the price of the fallback.
type instant struct{}

func (instant) Do(_ context.Context, c *core.Call) error {
	for i := range c.Parts {
		c.Parts[i].Done = true
	}
	return nil
}

func (instant) Close() error      { return nil }
func (instant) KeepsBudget() bool { return true }

// down is a primary that is down at once.
type down struct{ instant }

func (down) Do(context.Context, *core.Call) error { return outage(core.FailureRefused) }

// BenchmarkAllow is a decision by the memory store alone, by the local window while the
// breaker is open, and by a primary that answers at once, cold and warm.
func BenchmarkAllow(b *testing.B) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	probe := func(context.Context, int, time.Duration) error { return errors.New("down") }
	for name, open := range map[string]func() (core.Store, error){
		"memory alone": func() (core.Store, error) { return core.NewMemory(core.MemoryConfig{}) },
		"breaker open": func() (core.Store, error) { return fallback.New(down{}, fallback.Config{Probe: probe, Logger: quiet}) },
		"healthy, cold": func() (core.Store, error) {
			return fallback.New(instant{}, fallback.Config{Cold: true, Logger: quiet})
		},
		"healthy, warm": func() (core.Store, error) { return fallback.New(instant{}, fallback.Config{Logger: quiet}) },
	} {
		b.Run(name, func(b *testing.B) {
			store, err := open()
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			l, err := core.New(core.Config{Name: "api", Limits: []core.Limit{core.Per(1e9, 10*time.Millisecond)}, Store: store, Logger: quiet})
			if err != nil {
				b.Fatal(err)
			}
			key := keyfunc.User("ada")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Allow(context.Background(), key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
