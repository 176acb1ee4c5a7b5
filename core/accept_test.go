package core_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/core"
)

// refusedAs returns the Content-Type of a refusal for the lines of an Accept
// header.
func refusedAs(l *core.Limiter, accept ...string) string {
	r := get()
	r.Header["Accept"] = accept
	w := httptest.NewRecorder()
	l.Refuse(w, r, core.Verdict{Err: errStore})
	return w.Result().Header.Get("Content-Type")
}

const (
	textType = "text/plain; charset=utf-8"
	jsonType = "application/problem+json"
)

func TestAcceptChoosesTheBody(t *testing.T) {
	l := limiterWith(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}})
	for _, test := range []struct {
		want   string
		accept []string
	}{
		{textType, nil},
		{textType, []string{""}},
		{textType, []string{"*/*"}},
		{textType, []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}},
		{textType, []string{"application/xml"}},
		{textType, []string{"application/jsonp, xapplication/json, json, /json"}},
		{textType, []string{"application/json;q=0"}},
		{textType, []string{"application/json;q=0.4, text/plain;q=0.5"}},
		{textType, []string{"application/json;q=0.4, text/*;q=0.5"}},
		{textType, []string{"application/json;q=0.4, */*;q=0.5"}},
		{textType, []string{"application/json;q=0.4", "text/plain"}},
		{textType, []string{"application/problem+json;q=0, application/json"}},
		{textType, []string{"application/problem+json;q=0.1, application/json, text/plain;q=0.5"}},
		{textType, []string{"application/json;q=two"}},
		{textType, []string{"application/json;q=-1"}},
		{textType, []string{"application/json;q=2"}},
		{textType, []string{"application/json;q=NaN"}},
		{textType, []string{"application/json;q"}},

		{jsonType, []string{"application/json"}},
		{jsonType, []string{"application/problem+json"}},
		{jsonType, []string{"application/*"}},
		{jsonType, []string{"APPLICATION/JSON"}},
		{jsonType, []string{"application/json, text/plain, */*"}},
		{jsonType, []string{"application/json, text/javascript, */*; q=0.01"}},
		{jsonType, []string{"text/html, application/json;q=0.9, */*;q=0.8"}},
		{jsonType, []string{"application/json;q=0.5, text/plain;q=0.5"}},
		{jsonType, []string{"application/json;q=0.5, text/*, text/plain;q=0.1"}},
		{jsonType, []string{"application/*;q=0.1, application/json;q=0.6, text/plain;q=0.5"}},
		{jsonType, []string{"application/json;q=0.2, application/json;q=0.7, text/plain;q=0.5"}},
		{jsonType, []string{"application/json;q=0.5, text/*;q=0.1, */*"}},
		{jsonType, []string{"application/json;q=0.1, text/plain;q=NaN"}},
		{jsonType, []string{"text/plain;q=0.9", "application/json"}},
		{jsonType, []string{" application/json ; charset=utf-8 ; Q = 0.9 , text/plain ; q=0.8"}},
		{jsonType, []string{"application/json;q=1.000"}},
		{jsonType, []string{",,;;,application/json,;q=0"}},
	} {
		if got := refusedAs(l, test.accept...); got != test.want {
			t.Errorf("Accept %q: %s, want %s", test.accept, got, test.want)
		}
	}
}

func FuzzAccept(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""}, {"*/*", "application/json;q=0.5"}, {"text/plain;q=0.3", "application/*;q=0.2"},
		{"application/json;q=1e400", "application/json;q=0x1p-1"}, {";,=;q==,", "application/json;q=;q=1"},
		{"application/json;x=\"a,b\";q=0", "\xff\x00,"}, {strings.Repeat("application/json,", 100), strings.Repeat(";", 100)},
	} {
		f.Add(seed[0], seed[1])
	}
	l := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerMinute(1)}}))
	f.Fuzz(func(t *testing.T, one, two string) {
		got := refusedAs(l, one, two)
		if got != textType && got != jsonType {
			t.Fatalf("Content-Type %q", got)
		}
		if joined := refusedAs(l, one+","+two); joined != got {
			t.Errorf("two lines give %s, the same in one %s", got, joined)
		}
		if swapped := refusedAs(l, two, one); swapped != got {
			t.Errorf("the order of the lines matters: %s and %s", got, swapped)
		}
		if all := strings.ToLower(one + "," + two); got == jsonType && !strings.Contains(all, "json") && !strings.Contains(all, "application/*") {
			t.Error("JSON, though nobody asked for it")
		}
		if wanted := refusedAs(l, one, two, jsonType); wanted != jsonType {
			t.Errorf("with %s asked for by name and in full: %s", jsonType, wanted)
		}
	})
}
