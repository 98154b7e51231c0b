//go:build !race

// The race detector makes sync.Pool forget at random.

package main

import (
	"net/http"
	"testing"

	"github.com/509da70d/floodgate/gate/peerbench/peers"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// The first claim of gatehttp: what it adds to a request is no garbage.
func TestGatesDoNotAllocate(t *testing.T) {
	closed, asked := crowd(few, few)
	wrap, stop := gates(closed)
	stop() // the drainer would be counted
	work := serving(wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), asked)
	if n := testing.AllocsPerRun(10, func() { work(0) }); n > few/100 { // pools may be emptied meanwhile
		t.Errorf("got %v allocations for %d requests, want none", n, few)
	}
}

func TestServerDoesNotAllocate(t *testing.T) {
	closed, asked := crowd(few, few)
	g := peers.NewGate(closed)
	defer g.Close()
	s := &server{
		set: g.Set, keys: g.Gate, ips: g.Set.Gate(schemas.KindIP), rec: record.New(record.Options{}),
		one: newRounds(asked), two: newRounds(asked), addrs: addresses(few),
	}
	if n := testing.AllocsPerRun(10, func() { s.oneCaller(0); s.twoCallers(1) }); n > 1 { // a pool may be emptied meanwhile
		t.Errorf("got %v allocations for 2 000 requests, want none", n)
	}
}
