package limittest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/slidegate/slidegate/chimw"
	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/limittest"
)

func TestLoginOfChiIsLimited(t *testing.T) {
	clock := limittest.NewClock()
	lim := limittest.New(t, clock, core.Config{Limits: []core.Limit{core.PerMinute(5)}})
	r := chi.NewRouter()
	r.With(chimw.Middleware(lim)).Post("/login", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "wrong password", http.StatusUnauthorized)
	})
	login := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/login", nil))
		return w
	}

	limittest.Use(t, lim, limittest.Peer(), 4)
	limittest.Admitted(t, login())
	limittest.Refused(t, login(), time.Minute)
	clock.Advance(time.Minute)
	limittest.Admitted(t, login())
}
