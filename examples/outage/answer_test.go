package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
)

func TestAnswersAreJudged(t *testing.T) {
	headers := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	admitted := func(by string) http.Header {
		return headers("X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "3", deciderHeader, by)
	}
	refused := headers("X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "Retry-After", "7")
	for _, tt := range []struct {
		p             core.Policy
		a             answer
		text          string
		ever, outages bool // whether it is right at all, and while Redis is broken
	}{
		{core.Local, answer{200, admitted(byRedis), 0}, "200  3 of 5 left", true, false},
		{core.Local, answer{200, admitted(byMemory), 0}, "200  3 of 5 left", true, true},
		{core.Local, answer{200, admitted(byMemory), longest + 1}, "200  3 of 5 left", false, false},
		{core.Local, answer{429, refused, 0}, "429  wait 7 s", true, true},
		{core.Local, answer{200, headers(deciderHeader, byNobody), 0}, "200  no headers", false, false},
		{core.Local, answer{503, nil, 0}, "503  no headers", false, false},
		{core.Open, answer{200, admitted(byRedis), 0}, "200  3 of 5 left", true, false},
		{core.Open, answer{200, headers(deciderHeader, byNobody), longest}, "200  no headers", true, true},
		{core.Open, answer{200, admitted(byMemory), 0}, "200  3 of 5 left", false, false},
		{core.Open, answer{429, refused, 0}, "429  wait 7 s", true, false},
		{core.Open, answer{503, nil, 0}, "503  no headers", false, false},
		{core.Closed, answer{200, admitted(byRedis), 0}, "200  3 of 5 left", true, false},
		{core.Closed, answer{503, nil, 0}, "503  no headers", true, true},
		{core.Closed, answer{503, refused, 0}, "503  wait 7 s", false, false},
		{core.Closed, answer{429, refused, 0}, "429  wait 7 s", true, false},
		{core.Closed, answer{429, nil, 0}, "429  no headers", false, false},
		{core.Closed, answer{500, nil, time.Second}, "500  no headers", false, false},
	} {
		ever, outages := judge(tt.p, tt.a), judgeBroken(tt.p, tt.a)
		if (ever == nil) != tt.ever || (outages == nil) != tt.outages || tt.a.String() != tt.text {
			t.Errorf("/%v answers %q, want %q: %v, and while Redis is broken: %v", tt.p, tt.a, tt.text, ever, outages)
		}
	}
}

func TestTextIsWrappedBetweenWords(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", []string{""}},
		{"ab cd", []string{"ab cd"}},
		{"ab cde\n", []string{"ab", "cde"}},
		{"abcdefgh ij kl", []string{"abcdefgh", "ij kl"}},
	} {
		if got := wrap(tt.text, 5); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}
