package kafkaiotest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// defaultMaxMessage is max.message.bytes of a topic that does not set it.
const defaultMaxMessage = 1048588

// Kafka is a cluster in memory. Make one with New. It is itself a client of the cluster, which is never closed; Client
// returns further clients. All methods are safe for concurrent use, also within the function of SetFault.
type Kafka struct {
	faults faults

	mu         sync.Mutex
	topics     map[string]*topic // guarded by mu
	changed    chan struct{}     // guarded by mu: closed at the next change of any partition
	maxRecords int               // guarded by mu
}

// topic is a topic's partitions and the settings that matter.
type topic struct {
	partitions []*partition
	settings   map[string]string
}

// New returns a cluster without topics.
func New() *Kafka {
	return &Kafka{topics: make(map[string]*topic), changed: make(chan struct{})}
}

// Create creates topics of some partitions, and adds partitions to those that have fewer.
func (k *Kafka) Create(partitions int, names ...string) {
	k.change(func() {
		for _, name := range names {
			k.create(name, partitions)
		}
	})
}

func (k *Kafka) create(name string, partitions int) *topic {
	t := k.topics[name]
	if t == nil {
		t = &topic{}
		k.topics[name] = t
	}
	for len(t.partitions) < partitions {
		t.partitions = append(t.partitions, &partition{})
	}
	return t
}

// EnsureTopics creates the topics that are missing, with the settings max.message.bytes, kafkaio.SettingAhead and
// kafkaio.SettingTimes, and returns their names.
func (k *Kafka) EnsureTopics(_ context.Context, specs ...kafkaio.TopicSpec) (created []string, err error) {
	k.change(func() {
		for _, s := range specs {
			if k.topics[s.Name] == nil && s.Partitions > 0 {
				k.create(s.Name, s.Partitions).settings = s.Config()
				created = append(created, s.Name)
			}
		}
	})
	return created, nil
}

// Delete deletes topics.
func (k *Kafka) Delete(names ...string) {
	k.change(func() {
		for _, name := range names {
			delete(k.topics, name)
		}
	})
}

// Recreate deletes topics and creates them anew, with as many partitions as before: all of them are empty, and offsets start
// at 0 again.
func (k *Kafka) Recreate(names ...string) {
	k.change(func() {
		for _, name := range names {
			t := k.mustTopic(name)
			for i := range t.partitions {
				t.partitions[i] = &partition{}
			}
		}
	})
}

// SetMaxRecords bounds how many records one Fetch returns, so that a test sees several batches. 0 is no bound.
func (k *Kafka) SetMaxRecords(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.maxRecords = n
}

// Clone returns a copy of the cluster as it is now. Later changes of one do not change the other. The copy has no faults.
func (k *Kafka) Clone() *Kafka {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := New()
	c.maxRecords = k.maxRecords
	for name, t := range k.topics {
		copied := &topic{settings: t.settings}
		for _, p := range t.partitions {
			copied.partitions = append(copied.partitions, p.clone())
		}
		c.topics[name] = copied
	}
	return c
}

// change lets f change partitions, and wakes the fetches that wait for records.
func (k *Kafka) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
	close(k.changed)
	k.changed = make(chan struct{})
}

func (k *Kafka) mustTopic(name string) *topic {
	t := k.topics[name]
	if t == nil {
		panic(fmt.Sprintf("BUG: test uses topic %q, which it has not created", name))
	}
	return t
}

func (k *Kafka) mustPartition(name string, n int) *partition {
	t := k.mustTopic(name)
	if n < 0 || n >= len(t.partitions) {
		panic(fmt.Sprintf("BUG: test uses partition %d of topic %q, which has %d", n, name, len(t.partitions)))
	}
	return t.partitions[n]
}

// find returns a partition, or the broker's error.
func (k *Kafka) find(name string, n int) (*topic, *partition, error) {
	t := k.topics[name]
	if t == nil || n < 0 || n >= len(t.partitions) {
		return nil, nil, fmt.Errorf("%w: %w", kafkaio.ErrNoTopic, kafka.UnknownTopicOrPartition)
	}
	return t, t.partitions[n], nil
}

// check returns why the topic refuses the messages, or nil.
func (t *topic) check(msgs []kafkaio.Message, now time.Time) error {
	size := 0
	ahead, bounded := t.setting(kafkaio.SettingAhead)
	bounded = bounded && !t.appendTime()
	for i := range msgs {
		size += len(msgs[i].Key) + len(msgs[i].Value)
		if bounded && msgs[i].Time > now.UnixNano()+ahead*int64(time.Millisecond) {
			return fmt.Errorf("%w: %w", kafkaio.ErrTimestamp, kafka.InvalidTimestamp)
		}
	}
	longest, ok := t.setting("max.message.bytes")
	if !ok {
		longest = defaultMaxMessage
	}
	if int64(size) > longest {
		return fmt.Errorf("%w: %w", kafkaio.ErrTooLarge, kafka.MessageSizeTooLarge)
	}
	return nil
}

// appendTime reports whether messages bear the broker's time.
func (t *topic) appendTime() bool { return t.settings[kafkaio.SettingTimes] == kafkaio.AppendTime }

// timed returns messages with the times that they bear in the topic.
func (t *topic) timed(msgs []kafkaio.Message, now time.Time) []kafkaio.Message {
	if !t.appendTime() {
		return msgs
	}
	msgs = slices.Clone(msgs)
	for i := range msgs {
		msgs[i].Time = now.UnixNano()
	}
	return msgs
}

func (t *topic) setting(name string) (int64, bool) {
	n, err := strconv.ParseInt(t.settings[name], 10, 64)
	return n, err == nil
}
