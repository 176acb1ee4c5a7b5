package keyfunc_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

var keyText = regexp.MustCompile(`^[A-Za-z0-9._~:/%@+,=-]*$`)

// everyKey returns keys of every kind and form made of the texts a and b.
func everyKey(a, b string) map[string]keyfunc.Key {
	sealer, _ := keyfunc.NewSealer([]byte("0123456789abcdef"))
	keys := map[string]keyfunc.Key{
		"user": keyfunc.User(a), "name": keyfunc.Name(a), "route": keyfunc.Route(a), "method": keyfunc.Method(a),
		"apikey": keyfunc.APIKey(a), "header": keyfunc.Header(b, a), "join": keyfunc.Join(keyfunc.User(a), keyfunc.Name(b)),
	}
	for name, k := range keys {
		keys["sealed "+name] = sealer.Seal(k)
	}
	return keys
}

func checkText(t *testing.T, k keyfunc.Key) {
	t.Helper()
	text := k.String()
	if !keyText.MatchString(text) || len(text) > keyfunc.MaxText {
		t.Errorf("text %q of %d bytes", text, len(text))
	}
	if n := len(binary(k)); n < 1 || n > keyfunc.MaxBinary {
		t.Errorf("binary form of %v has %d bytes", k, n)
	}
	if appended, err := k.AppendText([]byte("x")); string(appended) != "x"+text || err != nil {
		t.Errorf("AppendText gives %q, %v", appended, err)
	}
	if marshalled, err := k.MarshalText(); string(marshalled) != text || err != nil {
		t.Errorf("MarshalText gives %q, %v", marshalled, err)
	}
	if appended, err := k.AppendBinary([]byte("x")); string(appended) != "x"+binary(k) || err != nil {
		t.Errorf("AppendBinary gives %q, %v", appended, err)
	}
}

func checkSameness(t *testing.T, a, b keyfunc.Key) {
	t.Helper()
	if (a == b) != (a.String() == b.String()) || (a == b) != (binary(a) == binary(b)) {
		t.Errorf("equal %t, texts %q and %q, binary %x and %x", a == b, a, b, binary(a), binary(b))
	}
}

func TestTextsAreInjectiveBoundedAndHarmless(t *testing.T) {
	var all []keyfunc.Key
	for _, text := range strangeTexts {
		for _, k := range everyKey(text, "X-User") {
			all = append(all, k)
		}
		for _, k := range everyKey("v", text) {
			all = append(all, k)
		}
	}
	all = append(all, keyfunc.NoAddress(), ip("203.0.113.9"), ip("2001:db8::1"), subnet("2001:db8::1/128"), keyfunc.Key{})
	for i, a := range all {
		checkText(t, a)
		for _, b := range all[:i] {
			checkSameness(t, a, b)
		}
	}
}

func TestReadableTexts(t *testing.T) {
	for _, c := range []struct {
		key  keyfunc.Key
		want string
	}{
		{keyfunc.User("42"), "user:42"},
		{keyfunc.User("a@example.com"), "user:a@example.com"},
		{keyfunc.Name("mail-queue"), "name:mail-queue"},
		{keyfunc.Header("x-user", "abc"), "header:X-User:abc"},
		{keyfunc.User("~x~"), "user:%7Ex~"},
		{keyfunc.User("}a"), "user:%7Da"},
		{keyfunc.User("100%"), "user:100%25"},
		{keyfunc.User("\x00\xff\n"), "user:%00%FF%0A"},
		{keyfunc.User("é"), "user:%C3%A9"},
		{keyfunc.User(strings.Repeat("a", 123)), "user:" + strings.Repeat("a", 123)},
		{keyfunc.Key{}, ""},
	} {
		if c.key.String() != c.want {
			t.Errorf("text %q, want %q", c.key, c.want)
		}
	}
	for text, pattern := range map[string]string{
		keyfunc.User(strings.Repeat("a", 124)).String():            `^user:~[0-9a-f]{32}$`,
		keyfunc.APIKey("sk_live_abc").String():                     `^apikey:[0-9a-f]{32}$`,
		keyfunc.Join(keyfunc.User("a")).String():                   `^join:[0-9a-f]{32}$`,
		keyfunc.Header("X-User", strings.Repeat("{", 99)).String(): `^header:X-User:~[0-9a-f]{32}$`,
		keyfunc.Header(strings.Repeat("X", 99), "a").String():      `^header:~[0-9a-f]{32}$`,
	} {
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("text %q does not match %s", text, pattern)
		}
	}
}

// What is stored must not change between versions: counters would start anew.
// The digests were worked out apart, with Python's hashlib and hmac.
func TestStoredFormsStayAsTheyAre(t *testing.T) {
	sealer, _ := keyfunc.NewSealer([]byte("0123456789abcdef"))
	for _, c := range []struct {
		key        keyfunc.Key
		text, form string
	}{
		{keyfunc.Key{}, "", "00"},
		{keyfunc.User("42"), "user:42", "043432"},
		{ip("203.0.113.9"), "ip:203.0.113.9", "0820cb007109"},
		{ip("2001:db8:1:2::9"), "ip:2001:db8:1:2::/64", "086120010db8000100020000000000000000"},
		{keyfunc.NoAddress(), "noaddress:", "0c"},
		{keyfunc.Header("X-User", "a"), "header:X-User:a", "1806582d5573657261"},
		{keyfunc.APIKey("sk_live_abc"), "apikey:2755ece7b8de8006a06bd22511540066", "112755ece7b8de8006a06bd22511540066"},
		{keyfunc.User(strings.Repeat("x", 200)), "user:~8a73fb753275ccc85756cad04ae62d81", "058a73fb753275ccc85756cad04ae62d81"},
		{keyfunc.Join(keyfunc.User("42"), keyfunc.Route("/")), "join:16f669c4e4d337e53947234b2fa1d61d", "2516f669c4e4d337e53947234b2fa1d61d"},
		{sealer.Seal(keyfunc.User("42")), "user:~sealed:76bbf940f6362446136be35d0d30751b", "0676bbf940f6362446136be35d0d30751b"},
	} {
		if got := fmt.Sprintf("%x", binary(c.key)); c.key.String() != c.text || got != c.form {
			t.Errorf("text %q, binary %s; want %q, %s", c.key, got, c.text, c.form)
		}
	}
}

func TestAPIKeyTextIsShownNowhere(t *testing.T) {
	const secret = "sk_live_abc"
	key := keyfunc.APIKey(secret)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "key", key)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "key", key, "in", struct{ K keyfunc.Key }{key})
	asJSON, err := json.Marshal(map[keyfunc.Key]any{key: []keyfunc.Key{key}})
	if err != nil {
		t.Fatal(err)
	}
	hidden := struct{ key keyfunc.Key }{key} // fmt calls no methods on unexported fields
	shown := []string{log.String(), string(asJSON), key.String(), key.GoString(), binary(key)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		shown = append(shown, fmt.Sprintf(verb, key), fmt.Sprintf(verb, &key), fmt.Sprintf(verb, hidden))
	}
	for _, s := range shown {
		if strings.Contains(s, secret) || strings.Contains(s, fmt.Sprintf("%x", secret)) {
			t.Errorf("the API key shows in %s", s)
		}
	}
	if want := `{"` + key.String() + `":["` + key.String() + `"]}`; string(asJSON) != want {
		t.Errorf("JSON is %s, want %s", asJSON, want)
	}
	for _, verb := range []string{"%v", "%+v", "%s"} {
		if got := fmt.Sprintf(verb, keyfunc.User("a\nb")); got != "user:a%0Ab" {
			t.Errorf("%s shows %q", verb, got)
		}
	}
	if got := fmt.Sprintf("%#v", keyfunc.User("a{b")); got != "keyfunc.Key(user:a%7Bb)" {
		t.Errorf("%%#v shows %q", got)
	}
}

func FuzzKeyText(f *testing.F) {
	for i, text := range strangeTexts {
		f.Add(text, strangeTexts[(i+1)%len(strangeTexts)])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		first, second := everyKey(a, b), everyKey(b, a)
		for name, x := range first {
			checkText(t, x)
			for other, y := range second {
				checkSameness(t, x, y)
				if name != other && x == y && !x.IsZero() {
					t.Errorf("%s and %s share the key %v", name, other, x)
				}
			}
		}
		for _, name := range []string{"user", "name", "apikey"} { // these count every byte
			if (a == b) != (first[name] == second[name]) {
				t.Errorf("%s of %q and %q: same key %t", name, a, b, first[name] == second[name])
			}
		}
	})
}

func FuzzJoin(f *testing.F) {
	for i, text := range strangeTexts {
		n := len(strangeTexts)
		f.Add(text, strangeTexts[(i+1)%n], strangeTexts[(i+2)%n], strangeTexts[(i+3)%n], byte(i))
	}
	f.Fuzz(func(t *testing.T, a, b, c, d string, kinds byte) {
		make := func(s string, kind byte) keyfunc.Key {
			if kind&1 == 0 {
				return keyfunc.User(s)
			}
			return keyfunc.Name(s)
		}
		lists := [][]keyfunc.Key{
			{make(a, kinds), make(b, kinds>>1)}, {make(c, kinds>>2), make(d, kinds>>3)}, {make(a, kinds), make(c, kinds>>2), make(d, kinds>>3)},
			{make(a+b, kinds)}, {make(c+d, kinds)}, {make(a+":"+b, kinds), make(c, kinds>>1)}, {make(a, kinds), make(b+":"+c, kinds>>1)},
		}
		for i, x := range lists {
			for _, y := range lists[:i] {
				j, k := keyfunc.Join(x...), keyfunc.Join(y...)
				if !j.IsZero() && j == k && fmt.Sprint(x) != fmt.Sprint(y) {
					t.Errorf("%v and %v are one key", x, y)
				}
				if fmt.Sprint(x) == fmt.Sprint(y) && j != k {
					t.Errorf("%v gives two keys", x)
				}
			}
		}
	})
}
