package analyzer

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Bugs that others of this kind had, as far as they would be the analyzer's around its fold.

// burst sends one request of each of some callers that nobody has seen before, and returns their ids by partition.
func (c *cluster) burst(name string) (ids [clusterPartitions][]string) {
	c.t.Helper()
	key := schemas.DefaultPartitionKey()
	now := time.Now().UnixNano()
	for i := range 10 * clusterPartitions {
		id := fmt.Sprint(name, "-", i)
		p := schemas.Partition(key.Hash("key", id), clusterPartitions)
		ids[p] = append(ids[p], id)
	}
	for p := range ids {
		c.seq[p]++
		f := schemas.Frame{
			Producer: schemas.ProducerID{3, c.producer}, Seq: c.seq[p], Flushed: now, Partitions: clusterPartitions, Fingerprint: key.Fingerprint(),
		}
		for _, id := range ids[p] {
			f.Entries = append(f.Entries, schemas.Entry{Time: now, Kind: "key", ID: id, Count: 1})
		}
		value, err := f.AppendTo(nil)
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.client.Produce(c.t.Context(), c.names.Requests, p, kafkaio.Message{Time: now, Value: value}); err != nil {
			c.t.Fatal(err)
		}
	}
	return ids
}

// decided returns whom the decisions of a partition close, of those that a gate takes.
func (c *cluster) decided(p int) map[string]bool {
	c.t.Helper()
	closed := map[string]bool{}
	var fence schemas.Fence
	for next := int64(0); ; {
		b, err := c.client.Fetch(c.t.Context(), kafkaio.FetchRequest{Topic: c.names.Decisions, Partition: p, Offset: next})
		if err != nil {
			c.t.Fatal(err)
		}
		if len(b.Records) == 0 {
			return closed
		}
		next = b.Next
		for _, r := range b.Records {
			d, err := pb.Decode(r.Value)
			switch {
			case err != nil:
				c.t.Fatal(err)
			case d.Claim != nil:
				fence.Claim(d.Claim.Epoch)
			case d.Heartbeat != nil:
				fence.Heartbeat(d.Heartbeat.Epoch, d.Heartbeat.Seq)
			case fence.Decision(d.Decision.Epoch, d.Decision.Seq):
				closed[d.Decision.Caller.ID] = d.Decision.Until > d.Decision.CloseAt
			}
		}
	}
}

// TestAChangeOfMembersStopsNoPublishing (WSO2 2283): after every join and leave, each partition's decisions go on, and
// gates take them.
func TestAChangeOfMembersStopsNoPublishing(t *testing.T) {
	testenv.Long(t)
	c := newCluster(t)
	c.rules = mustRules(t, "version: 1\nrules:\n  - {name: once, callers: key, limit: 1, window: 8760h, algorithm: fixed}\n")
	var members []*member
	for round, change := range []string{"join", "join", "leave", "join", "join", "leave", "leave"} {
		if change == "join" {
			members = append(members, c.join(t.TempDir()))
		} else {
			c.leave(members[0])
			members = members[1:]
		}
		c.await(members...)
		ids := c.burst(fmt.Sprint("round-", round))
		for p := range ids {
			c.wantDecided(p, ids[p], fmt.Sprintf("after %s %d", change, round))
		}
	}
	for _, m := range members {
		c.leave(m)
	}
}

// wantDecided waits until the partition's decisions close these callers.
func (c *cluster) wantDecided(p int, ids []string, when string) {
	c.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		closed, missing := c.decided(p), 0
		for _, id := range ids {
			if !closed[id] {
				missing++
			}
		}
		switch {
		case missing == 0:
			return
		case time.Now().After(deadline):
			c.t.Fatalf("%s: partition %d: got no decision on %d of %d callers", when, p, missing, len(ids))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestWhatWasLoggedBeforeTheFirstAnalyzerCounts (CrowdSec's Kafka source begins at the latest offset): a group without a
// committed offset begins with the first record, not with the next.
func TestWhatWasLoggedBeforeTheFirstAnalyzerCounts(t *testing.T) {
	t.Parallel()
	onEachBroker(t, func(t *testing.T, c *cluster) {
		t.Helper()
		c.send(100)
		c.send(60)
		m := c.join(t.TempDir())
		c.await(m)
		c.send(20)
		c.await(m)
		c.leave(m)
		c.send(100) // while nobody is there
		m = c.join(m.dir)
		c.await(m)
		c.leave(m)
		c.compare(map[int]string{0: m.dir, 1: m.dir, 2: m.dir, 3: m.dir})
	})
}
