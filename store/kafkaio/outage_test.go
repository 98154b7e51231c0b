package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// TestAnOutageIsKnownUntilABrokerAnswers: from the first call without an answer on, and with the address of the broker.
func TestAnOutageIsKnownUntilABrokerAnswers(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, embedded.Options{Dir: dir})
	client := startClient(t, Config{Brokers: b.Addrs()})
	makeTopic(t, client, "t", 1)
	produce(t, client, "t", 0, "a")
	if o, away := client.Outage(time.Now().Add(time.Hour)); away {
		t.Errorf("an hour after an answer, without a call: got %+v, want no outage", o)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	died := time.Now()
	for range 2 {
		if _, err := client.Fetch(t.Context(), FetchRequest{Topic: "t"}); err == nil {
			t.Fatal("a fetch from a broker that has ended: got no error")
		}
	}
	if o, away := client.Outage(died); away {
		t.Errorf("at once: got %+v, want patience", o)
	}
	o, away := client.Outage(time.Now().Add(outagePatience))
	if !away || o.Since.Before(died) || o.Since.After(time.Now()) || !strings.Contains(o.Err.Error(), b.Addr()) {
		t.Errorf("three seconds later: got %+v and %t, want an outage since %v that names %s", o, away, died, b.Addr())
	}
	startBroker(t, embedded.Options{Dir: dir, Listen: b.Addr()})
	if _, err := client.Fetch(t.Context(), FetchRequest{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	if o, away := client.Outage(time.Now().Add(time.Hour)); away {
		t.Errorf("after an answer: got %+v, want no outage", o)
	}
}

// TestARefusalIsAnAnswer, and a call that its caller ends says nothing about Kafka.
func TestARefusalIsAnAnswer(t *testing.T) {
	network := errors.New("dial tcp: connection refused")
	for name, c := range map[string]struct {
		err  error
		away bool
	}{
		"success":            {nil, false},
		"a broker's error":   {fmt.Errorf("fetch: %w", kafka.NotLeaderForPartition), false},
		"no such topic":      {&RequestError{Op: "fetch", Err: ErrNoTopic}, false},
		"no right":           {ErrUnauthorized, false},
		"an offset":          {&RangeError{}, false},
		"a corrupt batch":    {&CorruptError{}, false},
		"the network":        {network, true},
		"a time-out":         {context.DeadlineExceeded, true},
		"a late answer":      {fmt.Errorf("%w: %w", context.DeadlineExceeded, kafka.RequestTimedOut), true},
		"cancelled":          {context.Canceled, true},
		"closed":             {ErrClosed, true},
		"without a broker":   {ErrNoBrokers, true},
		"a stale connection": {errStale, true},
	} {
		client := New(Config{})
		client.ended(OpFetch, time.Now(), network)
		client.ended(OpFetch, time.Now(), c.err)
		if _, away := client.Outage(time.Now().Add(outagePatience)); away != c.away {
			t.Errorf("%s after a failure of the network: got outage %t, want %t", name, away, c.away)
		}
	}
}
