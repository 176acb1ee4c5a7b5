package keyfunc_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

func newSealer(t testing.TB, secret string) *keyfunc.Sealer {
	t.Helper()
	s, err := keyfunc.NewSealer([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSealedKeysAreStableOverInstances(t *testing.T) {
	secret := []byte("a secret of 24 bytes ...")
	one, err := keyfunc.NewSealer(secret)
	if err != nil {
		t.Fatal(err)
	}
	clear(secret) // the Sealer has its own copy
	two, other := newSealer(t, "a secret of 24 bytes ..."), newSealer(t, "another one of the length")
	for _, text := range strangeTexts {
		for name, k := range everyKey(text, "X-User") {
			sealed := one.Seal(k)
			if sealed != two.Seal(k) || sealed != one.Seal(k) {
				t.Errorf("%s of %q is sealed in two ways", name, text)
			}
			if k.IsZero() {
				if !sealed.IsZero() {
					t.Errorf("the zero Key is sealed to %v", sealed)
				}
				continue
			}
			if sealed == k || sealed == other.Seal(k) || sealed == one.Seal(sealed) {
				t.Errorf("%v is sealed to %v", k, sealed)
			}
			kind, _, _ := strings.Cut(k.String(), ":")
			if !strings.HasPrefix(sealed.String(), kind+":~sealed:") {
				t.Errorf("%v is sealed to %v", k, sealed)
			}
		}
	}
}

func TestSealedKeysHideTheirText(t *testing.T) {
	s := newSealer(t, "0123456789abcdef")
	for _, k := range []keyfunc.Key{keyfunc.User("alice"), keyfunc.Header("X-Alice", "alice"), ip("203.0.113.9"), keyfunc.Route("/alice")} {
		sealed := s.Seal(k)
		for _, shown := range []string{sealed.String(), binary(sealed), fmt.Sprintf("%#v", sealed)} {
			if strings.Contains(strings.ToLower(shown), "alice") || strings.Contains(shown, "203") || strings.Contains(shown, "\xcb\x00\x71\x09") {
				t.Errorf("sealed %v shows %q", k, shown)
			}
		}
	}
	if shown := fmt.Sprintf("%+v %#v", s, s); strings.Contains(shown, "0123456789abcdef") {
		t.Errorf("the secret shows in %s", shown)
	}
}

func TestSealingDistinguishesWhatKeysDistinguish(t *testing.T) {
	s, seen := newSealer(t, "0123456789abcdef"), map[keyfunc.Key]keyfunc.Key{}
	for _, text := range strangeTexts {
		for _, k := range everyKey(text, "X-User") {
			if other, ok := seen[s.Seal(k)]; ok && other != k {
				t.Errorf("%v and %v are sealed alike", k, other)
			}
			seen[s.Seal(k)] = k
		}
	}
}

func TestShortSecretIsAFault(t *testing.T) {
	for _, secret := range []string{"", "hunter2", "fifteen bytes.."} {
		s, err := keyfunc.NewSealer([]byte(secret))
		fault, ok := errors.AsType[*keyfunc.FieldError](err)
		if s != nil || !ok || fault.Field != "Secret" || fault.Value != fmt.Sprintf("%d bytes", len(secret)) {
			t.Errorf("secret of %d bytes: %v, %v", len(secret), s, err)
		}
		if secret != "" && strings.Contains(fmt.Sprint(err), secret) {
			t.Errorf("the secret shows in %v", err)
		}
	}
}

func TestSealerWithoutSecretChangesNothing(t *testing.T) {
	var none *keyfunc.Sealer
	if k := keyfunc.User("42"); none.Seal(k) != k || new(keyfunc.Sealer).Seal(k) != k {
		t.Error("a nil or zero Sealer changes a key")
	}
}

func TestSealingFromManyGoroutines(t *testing.T) {
	s := newSealer(t, "0123456789abcdef")
	want := make([]keyfunc.Key, 50)
	for i := range want {
		want[i] = s.Seal(keyfunc.User(fmt.Sprint(i)))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range want {
				if got := s.Seal(keyfunc.User(fmt.Sprint(i))); got != want[i] {
					t.Errorf("user %d is sealed to %v, want %v", i, got, want[i])
				}
			}
		})
	}
	wg.Wait()
}
