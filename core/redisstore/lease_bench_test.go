package redisstore_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// What 64 callers of one key are admitted, with leases and without. A decision that is
// not admitted fails the benchmark.
func BenchmarkLeases(b *testing.B) {
	server := redistest.Need(b)
	for _, length := range []time.Duration{0, 50 * time.Millisecond} {
		name := "without"
		if length > 0 {
			name = length.String()
		}
		b.Run(name, func(b *testing.B) {
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			defer func() { _ = client.Close() }()
			c := counter(name, core.Exact, time.Second, 0)
			var s core.Store = storeOn(b, client)
			if length > 0 {
				l := redisstore.NewLeased(s.(*redisstore.Store), length, nil, nil, nil)
				defer func() { _ = l.Close() }()
				s = l
			}
			var refused atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				x := call(core.OpTake, c, 10_000_000, 1)
				for pb.Next() {
					if err := s.Do(context.Background(), x); err != nil {
						b.Error(err)
						return
					}
					if !x.Parts[0].Done {
						refused.Add(1)
					}
				}
			})
			b.ReportMetric(float64(int64(b.N)-refused.Load())/b.Elapsed().Seconds(), "admitted/s")
			b.ReportMetric(100*float64(refused.Load())/float64(b.N), "%refused")
		})
	}
}
