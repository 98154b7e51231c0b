package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// listing returns the names of all files below a directory, with what those have that never change by themselves.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		out.WriteString(path + "\n")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	note, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + string(note)
}

// wantForeign runs a subcommand, and wants it to refuse the directory with exit code 2 and to change nothing in it.
func wantForeign(t *testing.T, dir, want string, args ...string) {
	t.Helper()
	before := listing(t, dir)
	_, err := runCommand(args...)
	if err == nil || command.ExitCode(err, io.Discard) != 2 || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("%v: got %v, want exit code 2 and %q", args, err, want)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("%v: the directory was\n%s\nand is\n%s", args, before, after)
	}
}

// topicNames returns the topics of a broker.
func topicNames(t *testing.T, b *embedded.Broker) (names []string) {
	t.Helper()
	m, err := (&kafka.Client{Addr: kafka.TCP(b.Addr())}).Metadata(t.Context(), &kafka.MetadataRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range m.Topics {
		names = append(names, topic.Name)
	}
	return names
}

// TestCountsOfAnotherClusterAreRefused: a wrong --brokers moves no store aside and makes no topics. Nor does a topic that was made anew
// while no analyzer ran.
func TestCountsOfAnotherClusterAreRefused(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	home, other := serveKafka(t, embedded.Options{MinSession: time.Second}), serveKafka(t, embedded.Options{MinSession: time.Second})
	data, rules := filepath.Join(t.TempDir(), "counts"), rulesFile(t)
	args := func(broker string, more ...string) []string {
		return append([]string{"analyze", "--brokers", broker, "--rules", rules, "--data", data, "--partitions", "1", "--session-timeout", "2s", "--listen", "127.0.0.1:0"}, more...)
	}
	for range 2 { // of its own cluster it is never refused
		a := begin(t, args(home.Addr())...)
		processtest.AwaitReady(t, "http://"+a.WaitFor(`msg=listening address=(\S+)`, 10*time.Second), 200, "ok")
		if _, err := a.End(); err != nil {
			t.Fatal(err)
		}
	}
	wantForeign(t, data, "are of the cluster ", args(other.Addr())...)
	if names := topicNames(t, other); len(names) != 0 {
		t.Errorf("the other cluster: got topics %v, want none made", names)
	}
	wantForeign(t, data, "are of the topic floodgate.requests, got the topic mine.requests", args(home.Addr(), "--topic-name", "requests=mine.requests")...)
	admin := &kafka.Client{Addr: kafka.TCP(home.Addr())}
	if r, err := admin.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{"floodgate.requests"}}); err != nil || r.Errors["floodgate.requests"] != nil {
		t.Fatal(err, r)
	}
	wantForeign(t, data, "it was deleted and made anew", args(home.Addr())...)
	if err := os.Remove(filepath.Join(data, "cluster.json")); err != nil {
		t.Fatal(err)
	}
	a := begin(t, args(other.Addr())...)
	processtest.AwaitReady(t, "http://"+a.WaitFor(`msg=listening address=(\S+)`, 10*time.Second), 200, "ok")
	if _, err := a.End(); err != nil {
		t.Errorf("after the note was deleted: got %v, want the other cluster", err)
	}
	if err := os.WriteFile(filepath.Join(data, "cluster.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runCommand(args(other.Addr())...); err == nil || !strings.Contains(err.Error(), "read the note of the cluster: "+data) {
		t.Errorf("a damaged note: got %v, want an error that names it", err)
	}
}

// TestATopicMadeAnewWhileItIsCountedIsNoReasonToStop, and the note goes along: the next start is on the new topic.
func TestATopicMadeAnewWhileItIsCountedIsNoReasonToStop(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	data, rules := filepath.Join(t.TempDir(), "counts"), rulesFile(t)
	args := []string{"analyze", "--brokers", b.Addr(), "--rules", rules, "--data", data, "--partitions", "1", "--session-timeout", "2s", "--listen", "127.0.0.1:0"}
	a := begin(t, args...)
	url := "http://" + a.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	processtest.AwaitReady(t, url, 200, "ok")
	old, err := readNote(data)
	if err != nil || old.Cluster == "" || len(old.TopicID) != 32 {
		t.Fatalf("got the note %+v, %v, want a cluster and a topic", old, err)
	}
	admin := &kafka.Client{Addr: kafka.TCP(b.Addr())}
	if r, err := admin.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{"floodgate.requests"}}); err != nil || r.Errors["floodgate.requests"] != nil {
		t.Fatal(err, r)
	}
	processtest.Eventually(t, 40*time.Second, "a note of the new topic", func() bool {
		note, err := readNote(data)
		return err == nil && note.TopicID != old.TopicID && note.Cluster == old.Cluster
	})
	if _, err := a.End(); err != nil {
		t.Fatal(err)
	}
	a = begin(t, args...)
	processtest.AwaitReady(t, "http://"+a.WaitFor(`msg=listening address=(\S+)`, 10*time.Second), 200, "ok")
	if _, err := a.End(); err != nil {
		t.Error(err)
	}
}

// TestPositionsOfAnotherClusterAreRefused: ingest would otherwise leave out all lines that it has sent to the first one.
func TestPositionsOfAnotherClusterAreRefused(t *testing.T) {
	t.Parallel()
	home, other := serveKafka(t, embedded.Options{}), serveKafka(t, embedded.Options{})
	dir := t.TempDir()
	log, data := filepath.Join(dir, "access.log"), filepath.Join(dir, "positions")
	if err := os.WriteFile(log, []byte("192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := func(broker string) []string {
		return []string{"ingest", "--brokers", broker, "--file", log, "--data", data, "--once", "--listen", ""}
	}
	for range 2 {
		if _, err := runCommand(args(home.Addr())...); err != nil {
			t.Fatal(err)
		}
	}
	wantForeign(t, data, "the positions in "+data+" are of the cluster ", args(other.Addr())...)
	if names := topicNames(t, other); len(names) != 0 {
		t.Errorf("the other cluster: got topics %v, want none made", names)
	}
}

// clusterNote is what these tests read of the note of a directory.
type clusterNote struct {
	Cluster string `json:"cluster"`
	TopicID string `json:"topic_id"`
}

func readNote(dir string) (note clusterNote, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if err == nil {
		err = json.Unmarshal(data, &note)
	}
	return note, err
}
