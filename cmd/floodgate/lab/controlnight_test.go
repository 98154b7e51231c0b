//go:build lab

package lab

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// pass is the story of TestTheTopicOfControlHasTrouble.
func (n *night) pass() {
	n.t.Helper()
	held := n.closeByHand("first")
	n.wantClosed("at first", held...)

	n.isAway()
	n.wantClosed("without the topic", held...)

	n.makeAnew()
	n.awaitMetric("control_unreadable", func(v float64) bool { return v == 0 })
	held = append(held, n.closeByHand("second")...)
	n.wantClosed("with an empty topic", held...)
	n.awaitMetric("control_read_again_total", func(v float64) bool { return v >= controlPartitions })

	held = append(held, n.isAnotherAndLonger()...)
	n.wantClosed("with another topic, which is longer", held...)
	held = append(held, n.closeByHand("fourth")...)
	n.wantClosed("by hand, in the other topic", held...)

	held = append(held, n.losesRecords()...)
	n.wantClosed("with records lost", held...)
	held = append(held, n.holdsWhatIsOfALaterVersion()...)
	n.wantClosed("behind records of a later version", held...)

	again := n.metric("control_read_again_total")
	n.awaitSnapshots()
	n.stop()
	n.beginAll()
	n.wantClosed("after a restart", held...)
	n.wantCounting("at-last")
	if got := n.metric("control_read_again_total"); got != 0 {
		n.t.Errorf("got the topic read again %v times after a restart, and %v before: want that it is known", got, again)
	}
}

// isAway deletes the topic: who writes is told why that fails.
func (n *night) isAway() {
	n.t.Helper()
	n.remove()
	for i := range n.apis {
		processtest.Eventually(n.t, time.Minute, "a refusal that says why", func() bool {
			_, err := n.act(i, "close", "key:nobody", "--for", "1h", "--reason", "ticket 4711")
			return err != nil && strings.Contains(err.Error(), "the control topic does not exist")
		})
	}
	n.awaitMetric("control_unreadable", func(v float64) bool { return v == controlPartitions })
	n.wantCounting("away")
}

// isAnotherAndLonger makes the topic anew, and longer than it was, while no analyzer looks: no offset says that it is another one.
func (n *night) isAnotherAndLonger() (keys []string) {
	n.t.Helper()
	again := n.metric("control_read_again_total")
	_, end, err := n.client.Range(n.t.Context(), n.names.Control, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	var records []kafkaio.Message
	for p := range controlPartitions {
		keys = append(keys, keyFrom("third", p, controlPartitions))
		records = append(records, n.record(keys[p]))
	}
	for int64(len(records)) < end+3 {
		records = append(records, records[0]) // copies change nothing
	}
	n.asleep(func() {
		n.remove()
		n.makeAnew()
		n.write(records...)
	})
	n.awaitMetric("control_read_again_total", func(v float64) bool { return v >= again+controlPartitions })
	return keys
}

// losesRecords deletes records that no analyzer has read, while none runs.
func (n *night) losesRecords() (keys []string) {
	n.t.Helper()
	n.awaitSnapshots() // what is in force can no longer be restored from the topic
	n.stop()
	n.write(n.record("lost"), n.record("lost-too"))
	_, end, err := n.client.Range(n.t.Context(), n.names.Control, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	for p := range controlPartitions {
		keys = append(keys, keyFrom("fifth", p, controlPartitions))
		n.write(n.record(keys[p]))
	}
	n.deleteBefore(end)
	n.beginAll()
	n.awaitMetric(`control_skipped_total`, func(v float64) bool { return v >= 2*controlPartitions })
	for _, a := range n.analyzers {
		a.WaitFor(`msg="skipped control records".* lost=([1-9]\d*)`, time.Minute)
	}
	return keys
}

// holdsWhatIsOfALaterVersion writes what this version does not know, and what none does.
func (n *night) holdsWhatIsOfALaterVersion() (keys []string) {
	n.t.Helper()
	skipped := n.metric("control_skipped_total")
	later, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "control", "rejects_unknown_later_action.hex"))
	if err != nil {
		n.t.Fatal(err)
	}
	lines := strings.Fields(string(later)) // a comment, and the bytes
	value, err := hex.DecodeString(lines[len(lines)-1])
	if err != nil {
		n.t.Fatal(err)
	}
	n.write(kafkaio.Message{Value: value}, kafkaio.Message{Value: []byte("garbage")})
	keys = n.closeByHand("sixth")
	n.awaitMetric("control_skipped_total", func(v float64) bool { return v >= skipped+2*controlPartitions })
	for _, a := range n.analyzers {
		a.WaitFor(`msg="skipped control records".* later_version=([1-9])`, time.Minute)
	}
	return keys
}

// awaitSnapshots waits until each partition has a snapshot that began after now.
func (n *night) awaitSnapshots() {
	n.t.Helper()
	for i := range n.urls {
		cycles := func() float64 {
			body, _ := processtest.Get(n.t.Context(), n.urls[i]+"/metrics")
			return processtest.MetricSum(body, "floodgate_snapshots_total")
		}
		before := cycles()
		processtest.Eventually(n.t, time.Minute, "two snapshots", func() bool { return cycles() >= before+2 })
	}
}

// stop stops both analyzers as people do.
func (n *night) stop() {
	n.t.Helper()
	for _, a := range n.analyzers {
		if code := a.Stop(syscall.SIGTERM); code != 0 {
			n.t.Errorf("SIGTERM: got exit code %d:\n%s", code, a.Text())
		}
	}
}

// beginAll starts them again.
func (n *night) beginAll() {
	n.t.Helper()
	for i := range n.analyzers {
		n.begin(i)
	}
	n.awaitOwners()
}
