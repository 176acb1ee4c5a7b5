package core_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// wantFault fails the test unless err is one fault of the field.
func wantFault(t *testing.T, err error, field, value string) {
	t.Helper()
	faults := slices.Collect(core.Faults(err))
	if len(faults) != 1 || faults[0].Field != field || faults[0].Value != value {
		t.Errorf("faults %v, want one of %s = %q", err, field, value)
		return
	}
	checkFaults(t, err)
}

// checkFaults fails the test unless err is made of FieldErrors alone that say
// what is wrong and what to do.
func checkFaults(t *testing.T, err error) {
	t.Helper()
	n := 0
	for f := range core.Faults(err) {
		n++
		if f.Field == "" || f.Problem == "" || f.Remedy == "" {
			t.Errorf("%#v leaves something out", f)
		}
		if line := f.Error(); !strings.HasPrefix(line, "slidegate: "+f.Field) || !strings.Contains(err.Error(), line) {
			t.Errorf("%q does not tell %q", err, line)
		}
	}
	if n == 0 {
		t.Errorf("%v holds no FieldError", err)
	}
}

func fieldsOf(err error) (fields []string) {
	for f := range core.Faults(err) {
		fields = append(fields, f.Field)
	}
	return fields
}

func equalStrings(a, b []string) bool { return slices.Equal(a, b) }

// valid returns a configuration without faults, for tests to spoil.
func valid() core.Config { return core.Config{Limits: []core.Limit{core.PerMinute(5)}} }

func TestEveryFieldIsChecked(t *testing.T) {
	broken := keyfunc.First(nil)
	for _, test := range []struct {
		name   string
		spoil  func(*core.Config)
		fields []string
	}{
		{"name with a blank", func(c *core.Config) { c.Name = "my api" }, []string{"Name"}},
		{"name with braces", func(c *core.Config) { c.Name = "{api}" }, []string{"Name"}},
		{"long name", func(c *core.Config) { c.Name = strings.Repeat("n", 65) }, []string{"Name"}},
		{"store without a name", func(c *core.Config) { c.Store = &scripted{} }, []string{"Name"}},
		{"store with a bad name", func(c *core.Config) { c.Store, c.Name = &scripted{}, "ä" }, []string{"Name"}},
		{"no limits", func(c *core.Config) { c.Limits = nil }, []string{"Limits"}},
		{"empty limits", func(c *core.Config) { c.Limits = []core.Limit{} }, []string{"Limits"}},
		{"65 limits", func(c *core.Config) { c.Limits = manyLimits(65) }, []string{"Limits"}},
		{"second limit", func(c *core.Config) { c.Limits = append(c.Limits, core.PerHour(0)) }, []string{"Limits[1].N"}},
		{"zero limit", func(c *core.Config) { c.Limits = []core.Limit{{}} }, []string{"Limits[0].N", "Limits[0].Window"}},
		{"same window twice", func(c *core.Config) { c.Limits = append(c.Limits, core.PerMinute(9)) }, []string{"Limits[1].Name"}},
		{"same name twice", func(c *core.Config) {
			c.Limits = []core.Limit{core.PerMinute(9).Named("x"), core.PerHour(9).Named("y"), core.PerDay(9).Named("x")}
		}, []string{"Limits[2].Name"}},
		{"name of another's window", func(c *core.Config) { c.Limits = append(c.Limits, core.PerHour(9).Named("1m")) }, []string{"Limits[1].Name"}},
		{"three of one name", func(c *core.Config) {
			c.Limits = []core.Limit{core.PerMinute(1), core.PerMinute(2), core.PerMinute(3)}
		}, []string{"Limits[1].Name", "Limits[2].Name"}},
		{"key", func(c *core.Config) { c.Key = broken }, []string{"Key: First[0]"}},
		{"key with an empty header", func(c *core.Config) { c.Key = keyfunc.ByHeader("") }, []string{"Key: ByHeader"}},
		{"key of a limit", func(c *core.Config) { c.Limits[0] = c.Limits[0].Key(broken) }, []string{"Limits[0].Key: First[0]"}},
		{"short secret", func(c *core.Config) { c.Secret = []byte("hunter2 hunter2") }, []string{"Secret"}},
		{"unknown policy", func(c *core.Config) { c.OnFailure = 3 }, []string{"OnFailure"}},
		{"negative budget", func(c *core.Config) { c.Budget = -1 }, []string{"Budget"}},
		{"unknown dialect", func(c *core.Config) { c.Headers = []core.Dialect{200} }, []string{"Headers"}},
		{"dialect twice", func(c *core.Config) { c.Headers = []core.Dialect{core.XRateLimit, core.XRateLimit} }, []string{"Headers"}},
		{"no dialect and one", func(c *core.Config) { c.Headers = []core.Dialect{core.XRateLimit, core.NoHeaders} }, []string{"Headers"}},
		{"two dialects of one header", func(c *core.Config) { c.Headers = []core.Dialect{core.XRateLimit, core.XRateLimitDelta} }, []string{"Headers"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := valid()
			test.spoil(&cfg)
			l, err := core.New(cfg)
			if l != nil || err == nil {
				t.Fatal("a limiter was made")
			}
			if got := fieldsOf(err); !slices.Equal(got, test.fields) {
				t.Errorf("faults in %q, want %q", got, test.fields)
			}
			checkFaults(t, err)
		})
	}
}

func TestATakenNameTellsWhoHasIt(t *testing.T) {
	_, err := core.New(core.Config{Limits: []core.Limit{core.PerHour(1), core.PerMinute(1), core.PerMinute(2), core.PerMinute(3)}})
	n := 0
	for f := range core.Faults(err) {
		n++
		if f.Value != "1m" || f.Problem != "Limits[1] has this name already" {
			t.Error(f)
		}
	}
	if n != 2 {
		t.Errorf("%d faults: %v", n, err)
	}
}

func manyLimits(n int) (limits []core.Limit) {
	for i := range n {
		limits = append(limits, core.Per(int64(i+1), time.Duration(i+1)*time.Second))
	}
	return limits
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	_, err := core.New(core.Config{
		Name:      "no good",
		Limits:    []core.Limit{core.Per(0, 0).Slotted(0).Named("ö"), core.Per(core.MaxUnits+1, 1<<62).Hybrid(20_000, 7).Named("ö").Key(keyfunc.First())},
		Key:       keyfunc.All(nil, keyfunc.ByCookie("")),
		Secret:    make([]byte, core.MinSecret-1),
		OnFailure: 77,
		Budget:    -time.Second,
		Headers:   []core.Dialect{99},
	})
	want := []string{
		"Name",
		"Limits[0].N", "Limits[0].Window", "Limits[0].Name", "Limits[0].Slots",
		"Limits[1].N", "Limits[1].Window", "Limits[1].Name", "Limits[1].Slots", "Limits[1].Hot", "Limits[1].Key: First", "Limits[1].Name",
		"Key: All[0]", "Key: ByCookie", "Secret", "OnFailure", "Budget", "Headers",
	}
	if got := fieldsOf(err); !slices.Equal(got, want) {
		t.Errorf("faults in\n%q, want\n%q", got, want)
	}
	checkFaults(t, err)
	if lines := strings.Count(err.Error(), "\n") + 1; lines != len(want) {
		t.Errorf("%d lines for %d faults:\n%v", lines, len(want), err)
	}
}

// What is valid at its edges is not refused.
func TestConfigurationsAtTheEdge(t *testing.T) {
	for name, cfg := range map[string]core.Config{
		"64 limits":        {Limits: manyLimits(64)},
		"name of 64":       {Name: strings.Repeat("n", 64), Limits: manyLimits(1)},
		"secret of 16":     {Secret: make([]byte, core.MinSecret), Limits: manyLimits(1)},
		"last policy":      {OnFailure: core.Closed, Limits: manyLimits(1)},
		"budget of 1ns":    {Budget: 1, Limits: manyLimits(1)},
		"no headers":       {Headers: []core.Dialect{core.NoHeaders}, Limits: manyLimits(1)},
		"own key function": {Key: func(keyfunc.Request) (keyfunc.Key, error) { return keyfunc.Key{}, errors.New("not here") }, Limits: manyLimits(1)},
		"store and name":   {Name: "n", Store: &scripted{}, Limits: manyLimits(1)},
	} {
		l, err := core.New(cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = l.Close()
	}
}

// A fault of the secret must not spread the secret.
func TestASecretIsNeverShown(t *testing.T) {
	secret := "tooshort"
	cfg := valid()
	cfg.Secret = []byte(secret)
	_, err := core.New(cfg)
	wantFault(t, err, "Secret", "8 bytes")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for f := range core.Faults(err) {
			if text := fmt.Sprintf(verb, f); strings.Contains(text, secret) {
				t.Errorf("%s shows the secret: %s", verb, text)
			}
		}
	}
}

// A key function of the user's own may return a FieldError of its own, wrapped.
func TestFaultsOfAKeyFunctionAreFoundInsideOtherErrors(t *testing.T) {
	inner := &core.FieldError{Field: "Tenant", Value: "x", Problem: "unknown", Remedy: "use another"}
	cfg := valid()
	cfg.Key = func(keyfunc.Request) (keyfunc.Key, error) { return keyfunc.Key{}, fmt.Errorf("tenant: %w", inner) }
	_, err := core.New(cfg)
	wantFault(t, err, "Key: Tenant", "x")
	if inner.Field != "Tenant" {
		t.Errorf("the function's own error was changed to %q", inner.Field)
	}
}

func TestFaultsWalksWhatIsJoinedAndWrapped(t *testing.T) {
	a, b, c := &core.FieldError{Field: "a"}, &core.FieldError{Field: "b"}, &core.FieldError{Field: "c"}
	err := fmt.Errorf("outer: %w", errors.Join(a, fmt.Errorf("%w and %w", b, errors.New("other")), errors.Join(errors.Join(c))))
	if got := fieldsOf(err); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("walked %q", got)
	}
	for stop := range 4 {
		var got []string
		for f := range core.Faults(err) {
			if len(got) == stop {
				break
			}
			got = append(got, f.Field)
		}
		if len(got) != min(stop, 3) {
			t.Errorf("stopped after %d, walked %q", stop, got)
		}
	}
	for _, err := range []error{nil, errors.New("other"), fmt.Errorf("x: %w", http.ErrAbortHandler)} {
		if got := fieldsOf(err); got != nil {
			t.Errorf("%v holds %q", err, got)
		}
	}
}

func TestMustPanicsWithTheError(t *testing.T) {
	defer func() {
		err, _ := recover().(error)
		if !slices.Equal(fieldsOf(err), []string{"Limits"}) {
			t.Errorf("panicked with %v", err)
		}
	}()
	core.Must(core.New(core.Config{}))
	t.Error("did not panic")
}

func TestMustReturnsTheLimiter(t *testing.T) {
	made, err := core.New(valid())
	if got := core.Must(made, err); got != made || got == nil {
		t.Errorf("got %p, want %p", got, made)
	}
}

func TestTheConfigurationIsCopied(t *testing.T) {
	secret := []byte("0123456789abcdef")
	cfg := core.Config{Name: "copied", Limits: []core.Limit{core.PerMinute(5)}, Secret: secret}
	store := &scripted{}
	cfg.Store = store
	l := limiterWith(t, cfg)
	allow(t, l, 1)
	cfg.Limits[0] = core.PerMinute(99)
	clear(secret)
	l.Limits()[0] = core.PerMinute(77)
	if got := l.Limits(); len(got) != 1 || got[0].N() != 5 {
		t.Errorf("the limits became %v", got)
	}
	allow(t, l, 1)
	calls := store.seen()
	if calls[0].Parts[0].N != 5 || calls[1].Parts[0].N != 5 {
		t.Error("the quota followed the caller's slice")
	}
	if calls[0].Parts[0].Key != calls[1].Parts[0].Key {
		t.Error("the key followed the caller's secret")
	}
}

func TestDefaultsOfTheConfiguration(t *testing.T) {
	l := limiterWith(t, valid())
	if l.Name() != "default" {
		t.Errorf("the name is %q", l.Name())
	}
	store := &scripted{}
	cfg := valid()
	cfg.Name, cfg.Store = "api", store
	l = limiterWith(t, cfg)
	if l.Name() != "api" {
		t.Errorf("the name is %q", l.Name())
	}
	allow(t, l, 3)
	c := store.seen()[0]
	if c.Budget != core.DefaultBudget || c.Policy != core.Local || c.Op != core.OpTake {
		t.Errorf("budget %v, policy %v, op %v", c.Budget, c.Policy, c.Op)
	}
	cfg.Budget, cfg.OnFailure = time.Second, core.Closed
	allow(t, limiterWith(t, cfg), 3)
	c = store.seen()[1]
	if c.Budget != time.Second || c.Policy != core.Closed {
		t.Errorf("budget %v, policy %v", c.Budget, c.Policy)
	}
}

func TestPolicyNames(t *testing.T) {
	for p, want := range map[core.Policy]string{core.Local: "local", core.Open: "open", core.Closed: "closed", 3: "Policy(3)"} {
		if got := p.String(); got != want {
			t.Errorf("Policy %d is called %q, want %q", uint8(p), got, want)
		}
	}
}
