package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
)

// keysOf returns the keys of a counter of someone: the log, or the slots and the log.
func keysOf(s *redisstore.Store, c *core.Counter) (log, slots string) {
	keys := s.Keys(call(core.OpTake, c, 1, 1))
	if len(keys) == 1 {
		return keys[0], ""
	}
	return keys[1], keys[0]
}

// damage is what a stranger can do to a counter that holds 3 units.
type damage struct {
	name       string
	algorithms string // e, s, h
	do         func(c *redis.Client, log, slots string) redis.Cmder
	text       string // in the error, or "" if the counter starts clean
}

func damages() []damage {
	ctx := context.Background()
	return []damage{
		{"a string in place of the log", "eh", func(c *redis.Client, log, _ string) redis.Cmder { return c.Set(ctx, log, "7", 0) }, "WRONGTYPE"},
		{"a list in place of the slots", "sh", func(c *redis.Client, _, slots string) redis.Cmder {
			c.Del(ctx, slots)
			return c.RPush(ctx, slots, "7")
		}, "WRONGTYPE"},
		{"a member that is no entry", "eh", func(c *redis.Client, log, _ string) redis.Cmder {
			return c.ZAdd(ctx, log, redis.Z{Score: float64(time.Now().UnixMicro()), Member: "hello"})
		}, "SLIDEGATE"},
		{"an entry without units", "eh", func(c *redis.Client, log, _ string) redis.Cmder {
			return c.ZAdd(ctx, log, redis.Z{Score: float64(time.Now().UnixMicro()), Member: "12:"})
		}, "SLIDEGATE"},
		{"a total that is not whole", "eh", func(c *redis.Client, log, _ string) redis.Cmder {
			return c.ZAdd(ctx, log, redis.Z{Score: float64(time.Now().UnixMicro()), Member: "4.5"})
		}, "SLIDEGATE"},
		{"a total beyond all totals", "eh", func(c *redis.Client, log, _ string) redis.Cmder {
			return c.ZAdd(ctx, log, redis.Z{Score: float64(time.Now().UnixMicro()), Member: "9007199254740993"})
		}, "SLIDEGATE"},
		{"a total that is no number", "eh", func(c *redis.Client, log, _ string) redis.Cmder {
			return c.ZAdd(ctx, log, redis.Z{Score: float64(time.Now().UnixMicro()), Member: "nan"})
		}, "SLIDEGATE"},
		{"a member at infinity", "eh", func(c *redis.Client, log, _ string) redis.Cmder {
			return c.Do(ctx, "ZADD", log, "+inf", "s:1:x")
		}, "SLIDEGATE"},
		{"a reservation without a state", "eh", func(c *redis.Client, log, _ string) redis.Cmder {
			return c.ZAdd(ctx, log, redis.Z{Score: 4e15 + 1e15, Member: "someone:1"})
		}, ""},
		{"an instant that is none", "sh", func(c *redis.Client, _, slots string) redis.Cmder { return c.HSet(ctx, slots, "a", "now") }, "ERR"},
		{"a sum below nothing", "sh", func(c *redis.Client, _, slots string) redis.Cmder { return c.HSet(ctx, slots, "t", "-5") }, "SLIDEGATE"},
		{"a sum without its instant", "sh", func(c *redis.Client, _, slots string) redis.Cmder { return c.HDel(ctx, slots, "a") }, "SLIDEGATE"},
		{"an instant without its sum", "sh", func(c *redis.Client, _, slots string) redis.Cmder { return c.HDel(ctx, slots, "t") }, "SLIDEGATE"},
		{"a foreign hash", "sh", func(c *redis.Client, _, slots string) redis.Cmder {
			c.Del(ctx, slots)
			return c.HSet(ctx, slots, "name", "Ann")
		}, ""},
		{"nothing left", "esh", func(c *redis.Client, log, slots string) redis.Cmder { return c.Del(ctx, log, slots) }, ""},
	}
}

// What these scripts did not write is answered by an error that says so, or it was
// lost and the counter starts anew. A reset clears it.
func TestForeignAndBrokenValues(t *testing.T) {
	client := realClient(t)
	s := storeOn(t, client, redisstore.Prefix(t.Name()))
	for letter, a := range map[string]core.Algorithm{"e": core.Exact, "s": core.Slotted, "h": core.Hybrid} {
		for _, d := range damages() {
			if !containsAny(d.algorithms, letter) {
				continue
			}
			t.Run(letter+" "+d.name, func(t *testing.T) {
				c := counter(d.name, a, time.Minute, 10)
				log, slots := keysOf(s, c)
				for range 3 { // the third of a hybrid one is hot
					take(t, s, c, 100, 1)
				}
				if err := d.do(client, log, slots).Err(); err != nil {
					t.Fatal(err)
				}
				for _, op := range []core.Op{core.OpTake, core.OpPeek, core.OpReserve} {
					if d.text == "" {
						if x := do(t, s, call(op, c, 100, 1)); !x.Done {
							t.Errorf("%s: %+v", op, x)
						}
						continue
					}
					wantError(t, s, call(op, c, 100, 1), d.text)
				}
				do(t, s, call(core.OpReset, c, 100, 1))
				if x := take(t, s, c, 1, 1); !x.Done || x.Used != 1 {
					t.Errorf("after a reset: %+v", x)
				}
			})
		}
	}
}

func containsAny(list, letter string) bool {
	for _, l := range list {
		if string(l) == letter {
			return true
		}
	}
	return false
}

// Where one of two keys is lost, what the other holds still counts, and nothing fails.
func TestOneOfTwoKeysIsEvicted(t *testing.T) {
	st := newStage(t)
	s := st.store(t)
	t.Run("slots of a slotted counter with a reservation", func(t *testing.T) {
		c := counter("a", core.Slotted, time.Minute, 10)
		_, slots := keysOf(s, c)
		take(t, s, c, 10, 2)
		held := reserve(t, s, c, 10, 3)
		st.mini.Del(slots)
		if got := used(t, s, c); got != 3 {
			t.Errorf("used %d, want the 3 that are reserved", got)
		}
		if x := take(t, s, c, 10, 7); !x.Done || x.Used != 10 {
			t.Errorf("%+v, want 7 to fit and 10 used", x)
		}
		if x := take(t, s, c, 10, 1); x.Done {
			t.Errorf("%+v, want it refused", x)
		}
		if x := do(t, s, held); !x.Done || x.Used != 10 {
			t.Errorf("commit: %+v", x)
		}
	})
	t.Run("log of a slotted counter with a reservation", func(t *testing.T) {
		c := counter("b", core.Slotted, time.Minute, 10)
		log, _ := keysOf(s, c)
		take(t, s, c, 10, 2)
		held := reserve(t, s, c, 10, 3)
		st.mini.Del(log)
		if got := used(t, s, c); got != 2 {
			t.Errorf("used %d, want the 2 that are in slots", got)
		}
		if x := do(t, s, held); x.Done {
			t.Errorf("a lost reservation was committed: %+v", x)
		}
	})
	for i, lost := range []string{"slots", "log"} {
		t.Run(lost+" of a hybrid counter", func(t *testing.T) {
			c := counter(lost, core.Hybrid, time.Minute, 10)
			log, slots := keysOf(s, c)
			take(t, s, c, 10, 2)
			take(t, s, c, 10, 3) // above 2 units it is hot
			st.mini.Del([]string{slots, log}[i])
			if got, want := used(t, s, c), []int64{3, 2}[i]; got != want {
				t.Errorf("used %d, want %d", got, want)
			}
			for range 3 {
				take(t, s, c, 10, 2)
			}
			if got := used(t, s, c); got > 10 {
				t.Errorf("used %d of 10", got)
			}
		})
	}
}
