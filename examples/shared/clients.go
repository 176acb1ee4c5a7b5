package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate/core"
)

const (
	// clients ask each instance.
	clients = 32
	// pause is the longest between two requests of a client.
	pause = 40 * time.Millisecond
)

// sight is what the clients of an instance saw.
type sight struct {
	admitted []core.Instant // when they were counted
	refused  int
	failed   int
	refusal  string // the first, as text
}

// askAll has clients ask every instance until ctx ends.
func askAll(ctx context.Context, urls []string) []sight {
	seen := make([]sight, len(urls))
	var all sync.WaitGroup
	for i, url := range urls {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: 10 * time.Second}
		var mu sync.Mutex
		for range clients {
			all.Go(func() {
				for rest(ctx) {
					// A request that is under way is heard out: it may be counted.
					answer, err := ask(client, url)
					mu.Lock()
					seen[i].take(answer, err)
					mu.Unlock()
				}
			})
		}
		defer client.CloseIdleConnections()
	}
	all.Wait()
	return seen
}

// rest waits a little, and reports false when ctx has ended.
func rest(ctx context.Context) bool {
	t := time.NewTimer(rand.N(pause))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

type answer struct {
	status int
	at     core.Instant
	text   string // of a refusal
}

func ask(client *http.Client, url string) (a answer, err error) {
	response, err := client.Get(url)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	a.status = response.StatusCode
	switch a.status {
	case http.StatusOK:
		at, err := strconv.ParseInt(strings.TrimSpace(string(body)), 10, 64)
		a.at = core.Instant(at)
		return a, err
	case http.StatusTooManyRequests:
		a.text = curl(response, body)
	}
	return a, nil
}

// curl writes a response as curl -i would.
func curl(response *http.Response, body []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", response.Proto, response.Status)
	_ = response.Header.Write(&b) // a strings.Builder takes everything
	return strings.ReplaceAll(b.String(), "\r\n", "\n") + "\n" + string(body)
}

func (s *sight) take(a answer, err error) {
	switch {
	case err != nil:
		s.failed++
	case a.status == http.StatusOK:
		s.admitted = append(s.admitted, a.at)
	case a.status == http.StatusTooManyRequests:
		s.refused++
		s.refusal = cmp.Or(s.refusal, a.text)
	default:
		s.failed++
	}
}

// fullest returns how many requests the fullest window (t-W, t] held, and how
// many of them each instance admitted.
func fullest(seen []sight) (most int, from []int) {
	type entry struct {
		at       core.Instant
		instance int
	}
	var all []entry
	for i, s := range seen {
		for _, at := range s.admitted {
			all = append(all, entry{at, i})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	from = make([]int, len(seen))
	in, first := make([]int, len(seen)), 0
	for last, e := range all {
		in[e.instance]++
		for ; e.at-all[first].at >= core.Instant(limitW.Microseconds()); first++ {
			in[all[first].instance]--
		}
		if n := last - first + 1; n > most {
			most = n
			copy(from, in)
		}
	}
	return most, from
}
