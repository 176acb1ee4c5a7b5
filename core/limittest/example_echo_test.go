package limittest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/limittest"
	"github.com/slidegate/slidegate/echomw"
)

func TestLoginOfEchoIsLimited(t *testing.T) {
	clock := limittest.NewClock()
	lim := limittest.New(t, clock, core.Config{Limits: []core.Limit{core.PerMinute(5)}})
	e := echo.New()
	e.POST("/login", func(echo.Context) error {
		return echo.NewHTTPError(http.StatusUnauthorized, "wrong password")
	}, echomw.Middleware(lim))
	login := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/login", nil))
		return w
	}

	limittest.Use(t, lim, limittest.Peer(), 4)
	limittest.Admitted(t, login())
	limittest.Refused(t, login(), time.Minute)
	clock.Advance(time.Minute)
	limittest.Admitted(t, login())
}
