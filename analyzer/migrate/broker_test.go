package migrate

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// TestAMigrationToEachBroker: the counts go over the network to brokers, and an analyzer elsewhere goes on from there.
func TestAMigrationToEachBroker(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		b, err := embedded.Start(embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		migrateToBrokers(t, b.Addrs())
	})
	t.Run("Apache Kafka", func(t *testing.T) {
		addrs := os.Getenv("FLOODGATE_KAFKA")
		if addrs == "" {
			t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
		}
		migrateToBrokers(t, strings.Split(addrs, ","))
	})
}

func migrateToBrokers(t *testing.T, brokers []string) {
	t.Helper()
	client := kafkaio.New(kafkaio.Config{Brokers: brokers})
	t.Cleanup(client.Close)
	prefix := "migrate-" + strconv.FormatUint(rand.Uint64(), 36)
	if _, err := client.EnsureTopics(t.Context(), kafkaio.Specs(topicsOf(prefix), partitions)...); err != nil {
		t.Fatal(err)
	}
	old := newSite(t, newKafka("old"), "old", allRules(t))
	v := &traffic{t: t, rnd: rand.New(rand.NewPCG(1, 2)), ids: 6}
	for range 50 {
		old.send(v.next()...)
	}
	now := time.Now()
	old.decide(schemas.Control{
		ID: schemas.ControlID{7}, Time: now.UnixNano(), Author: "ann", Reason: "a test", Action: schemas.ControlClose, Caller: v.callers()[0],
		Until: now.Add(time.Hour).UnixNano(),
	})
	old.start()
	old.awaitRunning()
	old.end()
	if _, err := Run(t.Context(), old.migration(client, prefix, t.TempDir())); err != nil {
		t.Fatal(err)
	}
	next := newSite(t, nil, prefix, old.conf.Rules)
	next.on = client
	next.start()
	next.awaitRunning()
	next.end()
	sameRows(t, "migrated", next.stored(countRows...), old.stored(countRows...))
}

// awaitRunning waits until all owners have counted what the log held when they started.
func (s *site) awaitRunning() {
	s.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for slices.ContainsFunc(s.owners, func(o *analyzer.Owner) bool { return o.Stats().State != analyzer.Running }) {
		if time.Now().After(deadline) {
			s.t.Fatal("the owners do not run after 20 s")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
