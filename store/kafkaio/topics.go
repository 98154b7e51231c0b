package kafkaio

import (
	"strconv"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Defaults of Layout.
const (
	DefaultOutage        = 7 * 24 * time.Hour
	DefaultSnapshotCycle = 10 * time.Minute
)

// EventsRetention is how long the topic of events keeps them.
const EventsRetention = 30 * 24 * time.Hour

// SettingAhead is the setting of the topic of requests that makes a broker refuse messages from the future: those that are
// more than MaxAhead ahead of its own clock. Apache Kafka has it since 3.6.
const (
	SettingAhead = "message.timestamp.after.max.ms"
	MaxAhead     = 2 * time.Second
)

// Layout is an installation's topics: how brokers must keep them, which is why it is here and not beside their names. Names and Partitions are needed.
type Layout struct {
	Names      schemas.TopicNames
	Partitions int // of requests, decisions, state and events
	Replicas   int // of each partition; 0 is the broker's default

	// Outage is the longest time without a running analyzer after which no counts are lost; 0 is DefaultOutage.
	Outage time.Duration
	// SnapshotCycle is how long the owner takes to write its windows to state once; 0 is DefaultSnapshotCycle.
	SnapshotCycle time.Duration
}

// TopicSpec is what a topic must be.
type TopicSpec struct {
	Name       string
	Partitions int // 0 accepts any number, and is not for topics that are created
	Replicas   int // 0 is the broker's default
	Settings   []Setting
}

// Setting is one setting of a topic: the value to create it with, and what an existing one is checked against.
type Setting struct {
	Name, Value string
	Bound       Bound
	Severity    Severity // if it is not as wanted
	Why         string   // what goes wrong then, in a sentence
	Optional    bool     // brokers that do not know it are left without it; CheckTopics still reports that
	CheckOnly   bool     // topics are not created with it: it is a second bound on another Setting
}

// Bound says how a topic's value must relate to a Setting's. The zero value is Equal.
type Bound uint8

// Bounds. AtLeast and AtMost compare integers, of which -1 (in Kafka: no limit) is the largest.
const (
	Equal Bound = iota
	AtLeast
	AtMost
)

// Specs returns the topics of an installation with default retention.
func Specs(names schemas.TopicNames, partitions int) []TopicSpec {
	return Layout{Names: names, Partitions: partitions}.Specs()
}

// segmentTime is how long brokers write to one segment file. Retention deletes whole segments, so short segments free their
// space sooner. But a broker keeps three files open for each segment: with segments of one repeat cycle (60 s), a week
// would be ten thousand segments a partition. With an hour it is 168, and space is freed late by less than a hundredth of
// the retention.
const segmentTime = time.Hour

// maxMessage is Kafka's own default of max.message.bytes: four frames of the largest size to a batch.
const maxMessage = 1048588

// Specs returns the installation's topics: requests, decisions, state, rejects, and control and events if they have names.
func (l Layout) Specs() []TopicSpec {
	if l.Outage <= 0 {
		l.Outage = DefaultOutage
	}
	if l.SnapshotCycle <= 0 {
		l.SnapshotCycle = DefaultSnapshotCycle
	}
	keep := retention(l.Outage+2*l.SnapshotCycle, "after a longer outage, requests that were not yet counted are lost")
	cycles := retention(l.Outage+2*l.SnapshotCycle, "after a longer outage, no complete cycle is left to start from")
	segments := Setting{Name: "segment.ms", Value: ms(segmentTime), Bound: AtMost, Severity: Warning,
		Why: "retention deletes whole segments: long ones keep the disk full"}
	// Only requests have it. The times of messages in the other topics do not count, and an analyzer whose clock is ahead
	// must still be able to publish its decisions.
	ahead := Setting{Name: SettingAhead, Value: ms(MaxAhead), Bound: AtMost, Severity: Error, Optional: true,
		Why: "one message from the future then ends the windows of all callers of its partition (Kafka 3.6 has it; before, see analyze --trust-clocks)"}
	specs := []TopicSpec{
		l.spec(l.Names.Requests, l.Partitions, keep, ahead),
		l.spec(l.Names.Decisions, l.Partitions, cycles, segments),
		l.spec(l.Names.State, l.Partitions, cycles, segments),
		l.spec(l.Names.Rejects, 1, retention(24*time.Hour, "rejects are deleted before a person has read them")),
	}
	if l.Names.Control != "" {
		forever := Setting{Name: "retention.ms", Value: "-1", Severity: Error,
			Why: "a new owner could not apply again what people have decided, and who decided what would be forgotten"}
		specs = append(specs, l.spec(l.Names.Control, 1, forever))
	}
	if l.Names.Events != "" {
		specs = append(specs, l.spec(l.Names.Events, l.Partitions,
			retention(EventsRetention, "events are deleted before a person or a program has read them"), segments))
	}
	return specs
}

// spec adds the settings that all topics share.
func (l Layout) spec(name string, partitions int, own ...Setting) TopicSpec {
	return TopicSpec{Name: name, Partitions: partitions, Replicas: l.Replicas, Settings: append([]Setting{
		{Name: "cleanup.policy", Value: "delete", Severity: Error,
			Why: "compaction leaves gaps, and readers start from positions that it removes"},
		{Name: "message.timestamp.type", Value: "CreateTime", Severity: Error,
			Why: "entries are clamped to their message's time: with append time, a backlog counts as a burst when it arrives"},
		{Name: "retention.bytes", Value: "-1", Severity: Error,
			Why: "a burst would delete records that are still needed"},
		{Name: "max.message.bytes", Value: strconv.Itoa(maxMessage), Bound: AtLeast, Severity: Error,
			Why: "batches of frames are refused"},
		readable(),
	}, own...)}
}

// readable is the bound on the batches of every topic that floodgate reads.
func readable() Setting {
	return Setting{Name: "max.message.bytes", Value: strconv.Itoa(MaxBatch), Bound: AtMost, Severity: Warning, CheckOnly: true,
		Why: "a longer batch is not read: its records are skipped, counted and lost"}
}

// ForeignSpec returns what another program's topic must be so that floodgate can read all of it. It is for CheckTopics
// only.
func ForeignSpec(name string) TopicSpec {
	return TopicSpec{Name: name, Settings: []Setting{readable()}}
}

func retention(minimum time.Duration, why string) Setting {
	return Setting{Name: "retention.ms", Value: ms(minimum), Bound: AtLeast, Severity: Error, Why: why}
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Config returns the settings to create the topic with.
func (s TopicSpec) Config() map[string]string {
	m := make(map[string]string, len(s.Settings))
	for _, o := range s.Settings {
		if !o.CheckOnly {
			m[o.Name] = o.Value
		}
	}
	return m
}
