package core_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/nethttp"
)

// The fields of the IETF draft beside the X-RateLimit headers, for a request that
// is admitted and one that the limit "burst" refuses.
func ExampleDialect() {
	lim, err := core.New(core.Config{
		Limits:  []core.Limit{core.Per(1, time.Minute).Named("burst"), core.PerDay(1000).Named("day")},
		Headers: []core.Dialect{core.XRateLimitDelta, core.Draft08},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := nethttp.Middleware(lim)(http.NotFoundHandler())
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		for _, name := range []string{"X-RateLimit-Remaining", "RateLimit-Policy", "RateLimit", "Retry-After"} {
			if value := w.Header().Get(name); value != "" {
				fmt.Printf("%s: %s\n", name, value)
			}
		}
	}
	// Output:
	// X-RateLimit-Remaining: 0
	// RateLimit-Policy: "burst";q=1;w=60, "day";q=1000;w=86400
	// RateLimit: "burst";r=0;t=60, "day";r=999;t=86400
	// X-RateLimit-Remaining: 0
	// RateLimit-Policy: "burst";q=1;w=60, "day";q=1000;w=86400
	// RateLimit: "burst";r=0;t=60
	// Retry-After: 60
}

// What a CORS middleware tells browsers, so that scripts can read the headers.
func ExampleExposedHeaders() {
	fmt.Println(core.ExposedHeaders()[:4])
	// Output: [X-RateLimit-Limit X-RateLimit-Remaining X-RateLimit-Reset Retry-After]
}
