package keyfunc_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

func query(raw string) keyfunc.Request {
	r := request(peer).HTTP()
	r.URL.RawQuery = raw
	return keyfunc.NewRequest(r, nil, nil)
}

func wantKey(t *testing.T, f keyfunc.Func, q keyfunc.Request, key keyfunc.Key) {
	t.Helper()
	if got := read(t, f, q); got != key {
		t.Errorf("key %v, want %v", got, key)
	}
}

func TestByAPIKey(t *testing.T) {
	f := keyfunc.ByAPIKey("x-api-key")
	wantKey(t, f, request(peer, "X-API-Key: sk_live_abc"), keyfunc.APIKey("sk_live_abc"))
	wantKey(t, f, request(peer, "X-API-Key:  sk_live_abc\t"), keyfunc.APIKey("sk_live_abc"))
	wantKey(t, f, request(peer, "X-API-Key: k", "X-API-Key: k"), keyfunc.APIKey("k"))
	wantMissing(t, f, request(peer))
	wantMissing(t, f, request(peer, "X-API-Key: "))
	wantMissing(t, f, request(peer, "X-API-Key: ", "X-API-Key:  "))
	long := strings.Repeat("k", 1<<20)
	wantKey(t, f, request(peer, "X-API-Key: "+long), keyfunc.APIKey(long))
}

func TestByBearer(t *testing.T) {
	f := keyfunc.ByBearer()
	for line, token := range map[string]string{
		"Bearer abc": "abc", "bearer abc": "abc", "BEARER abc": "abc", "Bearer   abc ": "abc", "Bearer\tabc": "abc",
		"Bearer a-._~+/9==": "a-._~+/9==", "Bearer 1|laravel": "1|laravel", "Bearer Bearer": "Bearer",
	} {
		wantKey(t, f, request(peer, "Authorization: "+line), keyfunc.APIKey(token))
	}
	for _, line := range []string{"", "Bearer", "Bearer ", "Basic YTpi", "BearerX abc", "Bear abc", "abc", "Bearer,abc"} {
		wantMissing(t, f, request(peer, "Authorization: "+line))
	}
	wantMissing(t, f, request(peer))
	wantKey(t, f, request(peer, "Authorization: Bearer abc", "Authorization: Bearer abc"), keyfunc.APIKey("abc"))
}

// A blank or a comma lets one token be written in endless ways for a reader
// that takes only the first word, each with a fresh quota.
func TestBearerTokenOfSeveralWordsIsNotGuessedAt(t *testing.T) {
	for _, line := range []string{"Bearer abc def", "Bearer abc\tdef", "Bearer abc, Bearer def", "Bearer abc,", "Bearer abc\x00", "Bearer a\u00a0b", "Bearer \x7f"} {
		wantAmbiguous(t, keyfunc.ByBearer(), request(peer, "Authorization: "+line))
	}
	for _, other := range []string{"Bearer def", "Basic YTpi", ""} {
		wantAmbiguous(t, keyfunc.ByBearer(), request(peer, "Authorization: Bearer abc", "Authorization: "+other))
		wantAmbiguous(t, keyfunc.ByBearer(), request(peer, "Authorization: "+other, "Authorization: Bearer abc"))
	}
}

func TestByQuery(t *testing.T) {
	f := keyfunc.ByQuery("key")
	wantKey(t, f, query("a=b&key=abc"), keyfunc.APIKey("abc"))
	wantKey(t, f, query("key=%61bc"), keyfunc.APIKey("abc"))
	wantKey(t, f, query("key=abc&key=abc"), keyfunc.APIKey("abc"))
	wantKey(t, f, query("key=abc&key=%zz"), keyfunc.APIKey("abc")) // net/url drops the second, for the handler too
	for _, raw := range []string{"", "key", "key=", "key=&key=", "KEY=abc", "key=%zz"} {
		wantMissing(t, f, query(raw))
	}
	for _, raw := range []string{"key=abc&key=def", "key=&key=abc", "key=abc&key=abc+"} {
		wantAmbiguous(t, f, query(raw))
	}
	wantMissing(t, f, keyfunc.NewRequest(&http.Request{}, nil, nil))
	wantMissing(t, f, keyfunc.Request{})
}

func TestByCookie(t *testing.T) {
	f := keyfunc.ByCookie("sid")
	wantKey(t, f, request(peer, "Cookie: a=b; sid=abc"), keyfunc.APIKey("abc"))
	wantKey(t, f, request(peer, `Cookie: sid="abc"`), keyfunc.APIKey("abc"))
	wantKey(t, f, request(peer, "Cookie: sid=abc; sid=abc", "Cookie: sid=abc"), keyfunc.APIKey("abc"))
	for _, line := range []string{"a=b", "sid=", "SID=abc", `sid="a`} {
		wantMissing(t, f, request(peer, "Cookie: "+line))
	}
	wantMissing(t, f, request(peer))
	wantAmbiguous(t, f, request(peer, "Cookie: sid=abc; sid=def"))
	wantAmbiguous(t, f, request(peer, "Cookie: sid=abc", "Cookie: sid=def"))
	wantAmbiguous(t, f, request(peer, "Cookie: sid=; sid=def"))
}

func TestErrorsShowNothingOfTheRequest(t *testing.T) {
	q := request(peer, "X-API-Key: sk_1", "X-API-Key: sk_2", "Authorization: Bearer sk_1 sk_2", "Cookie: sid=sk_1; sid=sk_2")
	q.HTTP().URL.RawQuery = "key=sk_1&key=sk_2"
	for _, f := range []keyfunc.Func{keyfunc.ByAPIKey("X-API-Key"), keyfunc.ByBearer(), keyfunc.ByCookie("sid"), keyfunc.ByQuery("key"), keyfunc.ByHeader("X-API-Key")} {
		wantAmbiguous(t, f, q)
		if _, err := f(q); strings.Contains(err.Error(), "sk_") {
			t.Errorf("the API key shows in %v", err)
		}
	}
}

func FuzzBearer(f *testing.F) {
	for _, s := range []string{"Bearer abc", "bearer  abc", "Bearer", "Basic x", "Bearer a b", "Bearer a,b", "Bearer\tx", "", " Bearer x "} {
		f.Add(s, "")
		f.Add(s, s)
	}
	byBearer := keyfunc.ByBearer()
	f.Fuzz(func(t *testing.T, one, two string) {
		lines := []string{one}
		if two != "" {
			lines = append(lines, two)
		}
		r := &http.Request{Header: http.Header{"Authorization": lines}}
		key, err := byBearer(keyfunc.NewRequest(r, nil, nil))
		if err != nil {
			if !key.IsZero() {
				t.Errorf("key %v with error %v", key, err)
			}
			return
		}
		// What a lenient reader takes for the token, from any line, is what counts.
		for _, line := range lines {
			words := strings.Fields(line)
			if len(words) != 2 || !strings.EqualFold(words[0], "bearer") || key != keyfunc.APIKey(words[1]) {
				t.Errorf("lines %q give %v", lines, key)
			}
		}
	})
}

func FuzzAPIKeySources(f *testing.F) {
	for _, s := range []string{"abc", "", " ", "a&key=b", "a;b", "%zz", "sk_live_abc", "\x00", `"abc"`} {
		f.Add(s, s)
		f.Add(s, "other")
	}
	byHeader, byQuery, byCookie := keyfunc.ByAPIKey("X-API-Key"), keyfunc.ByQuery("key"), keyfunc.ByCookie("sid")
	f.Fuzz(func(t *testing.T, one, two string) {
		trim := func(s string) string { return strings.Trim(s, " \t") }
		check := func(f keyfunc.Func, r *http.Request, agree bool, value string) {
			t.Helper()
			key, err := f(keyfunc.NewRequest(r, nil, nil))
			if (err == nil) != (agree && value != "") || key != keyfunc.APIKey(value) && err == nil || !key.IsZero() && err != nil {
				t.Errorf("values %q and %q give %v, %v", one, two, key, err)
			}
		}
		check(byHeader, &http.Request{Header: http.Header{"X-Api-Key": {one, two}}}, trim(one) == trim(two), trim(one))
		encoded := url.Values{"key": {one, two}}.Encode()
		check(byQuery, &http.Request{URL: &url.URL{RawQuery: encoded}}, one == two, one)
		jar := &http.Request{Header: http.Header{"Cookie": {"sid=" + one, "sid=" + two}}}
		key, err := byCookie(keyfunc.NewRequest(jar, nil, nil))
		if c, absent := jar.Cookie("sid"); err == nil && (absent != nil || key != keyfunc.APIKey(c.Value)) {
			t.Errorf("cookies %q and %q give %v", one, two, key)
		}
	})
}
