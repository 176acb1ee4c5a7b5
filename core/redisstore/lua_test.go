package redisstore_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
)

// comments are Lua's.
var comments = regexp.MustCompile(`--[^\n]*`)

func TestScriptsReadTheTimeOnce(t *testing.T) {
	for name, src := range redisstore.Sources() {
		if n := strings.Count(comments.ReplaceAllString(src, ""), "'TIME'"); n != 1 {
			t.Errorf("%s reads the time %d times: before Redis 7.2 it goes on meanwhile (redis/redis#12556)", name, n)
		}
	}
}

// Redis 6.2 is the oldest that the scripts are for. What came later, or is not in
// miniredis, or is slow on big sets, is not used.
func TestScriptsUseKnownCommandsAlone(t *testing.T) {
	known := strings.Fields("TIME ZADD ZREM ZRANGE ZRANGEBYSCORE ZREVRANGEBYSCORE ZRANK ZSCORE ZCARD ZCOUNT ZREMRANGEBYRANK " +
		"HMGET HGET HGETALL HSET HDEL EXISTS PEXPIRE PTTL UNLINK")
	command := regexp.MustCompile(`call\('([A-Z]+)'`)
	for name, src := range redisstore.Sources() {
		src = comments.ReplaceAllString(src, "")
		for _, m := range command.FindAllStringSubmatch(src, -1) {
			if !strings.Contains(" "+strings.Join(known, " ")+" ", " "+m[1]+" ") {
				t.Errorf("%s uses %s", name, m[1])
			}
		}
		for _, forbidden := range []string{"cjson", "cmsgpack", "struct.", "bit.", "KEYS *", "goto ", "os.", "math.random", "tostring("} {
			if strings.Contains(src, forbidden) {
				t.Errorf("%s uses %s", name, forbidden)
			}
		}
	}
}

func TestEachLuaFileSaysWhatItIs(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(src), "-- ") {
			t.Errorf("%s has no header", file)
		}
		if strings.Count(string(src), "\n") > 400 {
			t.Errorf("%s is too long", file)
		}
	}
}

// Scripts are given whole numbers by this package. Should anything else reach them,
// they say so and count nothing.
func TestScriptsRefuseWhatIsNoWholeCost(t *testing.T) {
	client := realClient(t)
	s := storeOn(t, client, redisstore.Prefix(t.Name()))
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		for _, op := range []core.Op{core.OpTake, core.OpPeek, core.OpReserve} {
			src, keys, texts := s.Question(call(op, c, 10, 1))
			for _, cost := range []string{"0.5", "-5", "0", "nan", "inf", "-inf", "", "1 unit"} {
				args := make([]any, len(texts))
				for i, text := range texts {
					args[i] = text
				}
				args[len(args)-1] = cost
				if reply, err := client.Eval(t.Context(), src, keys, args...).Result(); err == nil {
					t.Errorf("%s, cost %q: %v, want an error", op, cost, reply)
				}
			}
		}
		if got := used(t, s, c); got != 0 {
			t.Errorf("used %d", got)
		}
	})
}

// Microseconds of fewer than six digits must not shorten the time.
func TestTimeIsPadded(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		st := newStage(t) // 42 µs after a second
		s := st.checked(t)
		for range 4 {
			if x := take(t, s, c, 10, 1); x.At != st.Now() {
				t.Errorf("At %d, want %d", x.At, st.Now())
			}
			st.advance(1e9 - 41e3) // 1 µs
		}
		log, slots := keysOf(st.store(t), c)
		entries, _ := st.mini.SortedSet(log)
		for member, score := range entries {
			if score < float64(start) {
				t.Errorf("entry %s at %v", member, score)
			}
		}
		if slots != "" && len(st.mini.HGet(slots, "a")) != 16 {
			t.Errorf("instant %q", st.mini.HGet(slots, "a"))
		}
	})
}

func TestUnknownOperationsCountNothing(t *testing.T) {
	s := newStage(t).store(t)
	c := counter("limit", core.Exact, 60e9, 0)
	wantError(t, s, call(core.OpReset+1, c, 10, 1), "unsupported operation")
	if got := used(t, s, c); got != 0 {
		t.Errorf("used %d", got)
	}
	if err := s.Do(context.Background(), &core.Call{}); err != nil {
		t.Errorf("a call without parts: %v", err)
	}
}
