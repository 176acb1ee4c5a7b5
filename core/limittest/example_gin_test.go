package limittest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/limittest"
	"github.com/slidegate/slidegate/ginmw"
)

func TestLoginOfGinIsLimited(t *testing.T) {
	clock := limittest.NewClock()
	lim := limittest.New(t, clock, core.Config{Limits: []core.Limit{core.PerMinute(5)}})
	gin.SetMode(gin.TestMode)
	r := gin.New()
	r.POST("/login", ginmw.Middleware(lim), func(c *gin.Context) {
		c.String(http.StatusUnauthorized, "wrong password")
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
