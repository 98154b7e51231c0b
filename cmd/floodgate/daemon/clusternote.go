package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/store/atomicfile"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// clusterNoteName is the file below --data that says which cluster and which topic of requests belong to what else is there. With
// another cluster, counts and positions mean nothing: analyze would move all its stores aside, and ingest would leave out lines.
const clusterNoteName = "cluster.json"

// clusterNote is the file.
type clusterNote struct {
	Version int    `json:"version"`
	Cluster string `json:"cluster,omitempty"`  // its id; "" if brokers did not say it
	Topic   string `json:"topic"`              // the name of the topic of requests
	TopicID string `json:"topic_id,omitempty"` // "" before Kafka 2.8
}

// noteChecker compares the note in a directory with the cluster and the topic that a daemon uses.
type noteChecker struct {
	daemon *daemon
	dir    string
	what   string // what is in the directory: "counts" or "positions"
	flag   string // that names the directory; "" is --data
}

// checkCluster returns a usage error if the directory belongs to another cluster. It is for before topics are made. While Kafka is away
// it goes on trying.
func (n noteChecker) checkCluster(ctx context.Context) error {
	note, found, err := readClusterNote(n.dir)
	if err != nil || !found {
		return err
	}
	id, err := n.identity(ctx)
	if err != nil {
		return err
	}
	return n.compare(note, clusterNote{Cluster: id.Cluster, Topic: n.daemon.kafka.Names.Requests})
}

// checkTopic returns a usage error if the directory belongs to another cluster or topic of requests, and otherwise notes what it belongs
// to. again says that this process has counted from these brokers before: then topics that were made anew, and a cluster that lost
// everything, are no error.
func (n noteChecker) checkTopic(ctx context.Context, again bool) error {
	note, found, err := readClusterNote(n.dir)
	if err != nil {
		return err
	}
	topic := n.daemon.kafka.Names.Requests
	id, err := n.identity(ctx, topic)
	if err != nil {
		return err
	}
	now := clusterNote{Version: 1, Cluster: id.Cluster, Topic: topic, TopicID: id.Topics[topic]}
	if found {
		want := note
		if again {
			want.Cluster, want.TopicID = "", ""
		}
		if err := n.compare(want, now); err != nil {
			return err
		}
		now.Cluster, now.TopicID = cmp.Or(now.Cluster, note.Cluster), cmp.Or(now.TopicID, note.TopicID)
	}
	if note == now {
		return nil
	}
	return writeClusterNote(n.dir, now)
}

// compare returns a usage error if the note contradicts what there is now. A value that one of the two lacks contradicts nothing.
func (n noteChecker) compare(note, now clusterNote) error {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	path, flag := filepath.Join(n.dir, clusterNoteName), "--"+cmp.Or(n.flag, "data")
	switch {
	case differ(note.Cluster, now.Cluster):
		return command.Usagef("%s: the %s in %s are of the cluster %s, and --brokers %v is the cluster %s: give the brokers of that cluster or another %[1]s; "+
			"nothing was changed. If these %[2]s may be lost, delete %[7]s", flag, n.what, n.dir, note.Cluster, n.daemon.kafka.Brokers, now.Cluster, path)
	case differ(note.Topic, now.Topic):
		return command.Usagef("%s: the %s in %s are of the topic %s, got the topic %s: give that one or another %[1]s; nothing was changed. "+
			"If these %[2]s may be lost, delete %[6]s", flag, n.what, n.dir, note.Topic, now.Topic, path)
	case differ(note.TopicID, now.TopicID):
		return command.Usagef("%s: the %s in %s are of the topic %s with the id %s, got one with the id %s: it was deleted and made anew; nothing was changed. "+
			"If these %[2]s may be lost, delete %[7]s, else give another %[1]s", flag, n.what, n.dir, note.Topic, note.TopicID, now.TopicID, path)
	}
	return nil
}

// newTopicTries is how often brokers are asked for a topic that they may not all know yet, a second apart.
const newTopicTries = 30

// identity asks brokers who they are. While Kafka is away it goes on trying.
func (n noteChecker) identity(ctx context.Context, topics ...string) (kafkaio.Identity, error) {
	for missing := 0; ; {
		id, err := n.daemon.client.Identity(ctx, topics...)
		if errors.Is(err, kafkaio.ErrNoTopic) {
			missing++
		}
		if err == nil || !kafkaio.Temporary(err) && (missing == 0 || missing > newTopicTries) {
			return id, err
		}
		if ctx.Err() != nil {
			return id, ctx.Err()
		}
		n.daemon.logger.Warn("cannot ask which cluster this is, trying again", "error", err)
		_ = kafkaio.Sleep(ctx, time.Second)
	}
}

// readClusterNote returns the note in a directory, and whether there is one.
func readClusterNote(dir string) (note clusterNote, found bool, err error) {
	path := filepath.Join(dir, clusterNoteName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return note, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &note)
	}
	if err == nil && note.Version != 1 {
		err = fmt.Errorf("got version %d, want 1", note.Version)
	}
	if err != nil {
		return note, false, fmt.Errorf("read the note of the cluster: %s: %w", path, err)
	}
	return note, true, nil
}

// writeClusterNote replaces the note in a directory: after a crash it is the old or the new.
func writeClusterNote(dir string, note clusterNote) error {
	data, err := json.MarshalIndent(note, "", "  ")
	if err != nil {
		return fmt.Errorf("write the note of the cluster: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, clusterNoteName), append(data, '\n')); err != nil {
		return fmt.Errorf("write the note of the cluster: %w", err)
	}
	return nil
}
