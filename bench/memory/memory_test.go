package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

func TestSizesAndExpiry(t *testing.T) {
	var out bytes.Buffer
	err := run(context.Background(), &out, options{redis: redistest.Need(t).Addr(), window: time.Second, units: []int{1, 100}, check: true, markdown: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, k := range kinds {
		if !strings.Contains(out.String(), k.name) {
			t.Errorf("no row %s in:\n%s", k.name, &out)
		}
	}
	if !strings.Contains(out.String(), "all bounds hold") {
		t.Errorf("no verdict in:\n%s", &out)
	}
}

func TestBrokenBoundsAreTold(t *testing.T) {
	before := most[100]
	most[100] = 10
	defer func() { most[100] = before }()
	var out bytes.Buffer
	err := run(context.Background(), &out, options{redis: redistest.Need(t).Addr(), window: time.Second, units: []int{100}, check: true})
	if !errors.Is(err, errBound) || !strings.Contains(out.String(), "bound broken: exact takes") {
		t.Errorf("a bound of 10 bytes: %v\n%s", err, &out)
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-window", "1ms"}, {"-window", "1h"}, {"stray"}} {
		if err := command(context.Background(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
