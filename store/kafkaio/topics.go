package kafkaio

import (
	"strconv"
	"time"
)

// TopicNames are the names of floodgate's topics.
type TopicNames struct {
	Requests, Decisions, State, Rejects, Control string
}

// DefaultTopicNames returns floodgate.requests and so on.
func DefaultTopicNames() TopicNames {
	return TopicNames{
		Requests:  "floodgate.requests",
		Decisions: "floodgate.decisions",
		State:     "floodgate.state",
		Rejects:   "floodgate.rejects",
		Control:   "floodgate.control",
	}
}

// Defaults of Layout.
const (
	DefaultOutage        = 7 * 24 * time.Hour
	DefaultSnapshotCycle = 10 * time.Minute
)

// Layout is an installation's topics. Names and Partitions are needed.
type Layout struct {
	Names      TopicNames
	Partitions int // of requests, decisions and state
	Replicas   int // of each partition; 0 is the broker's default

	// Outage is the longest time that no analyzer may run without losing counts; 0 is DefaultOutage.
	Outage time.Duration
	// SnapshotCycle is how long the owner takes to write its windows to state once; 0 is DefaultSnapshotCycle.
	SnapshotCycle time.Duration
}

// TopicSpec is what a topic must be.
type TopicSpec struct {
	Name       string
	Partitions int
	Replicas   int // 0 is the broker's default
	Settings   []Setting
}

// Setting is one setting of a topic: the value to create it with, and what an existing one is checked against.
type Setting struct {
	Name, Value string
	Bound       Bound
	Severity    Severity // if it is not as wanted
	Why         string   // what goes wrong then, in a sentence
	Optional    bool     // brokers that don't know it may leave it out; it is still found missing
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
func Specs(names TopicNames, partitions int) []TopicSpec {
	return Layout{Names: names, Partitions: partitions}.Specs()
}

// segmentTime is how long brokers write to one segment file. Retention deletes whole segments, so that short ones return
// space sooner; but a broker keeps three files open for each, and at one repeat cycle (60 s) a week would be ten thousand
// segments a partition. An hour is 168, and late by less than a hundredth of the retention.
const segmentTime = time.Hour

// maxMessage is Kafka's own default of max.message.bytes: four frames of the largest size to a batch.
const maxMessage = 1048588

// Specs returns the installation's topics: requests, decisions, state, rejects and control.
func (l Layout) Specs() []TopicSpec {
	if l.Outage <= 0 {
		l.Outage = DefaultOutage
	}
	if l.SnapshotCycle <= 0 {
		l.SnapshotCycle = DefaultSnapshotCycle
	}
	keep := retention(l.Outage+2*l.SnapshotCycle, "after a longer outage what was not yet counted is gone")
	cycles := retention(l.Outage+2*l.SnapshotCycle, "after a longer outage no whole cycle is left to start from")
	segments := Setting{Name: "segment.ms", Value: ms(segmentTime), Bound: AtMost, Severity: Warning,
		Why: "retention deletes whole segments: long ones keep the disk full"}
	ahead := Setting{Name: "message.timestamp.after.max.ms", Value: ms(2 * time.Second), Bound: AtMost, Severity: Error, Optional: true,
		Why: "a server whose clock runs ahead is then believed, and closes callers early (needs Kafka 3.6)"}
	return []TopicSpec{
		l.spec(l.Names.Requests, l.Partitions, keep, ahead),
		l.spec(l.Names.Decisions, l.Partitions, cycles, segments),
		l.spec(l.Names.State, l.Partitions, cycles, segments),
		l.spec(l.Names.Rejects, 1, retention(24*time.Hour, "rejects vanish before anybody has looked")),
		l.spec(l.Names.Control, 1, Setting{Name: "retention.ms", Value: "-1", Severity: Error,
			Why: "a manual closure and the rules' versions must outlive any retention"}),
	}
}

// spec adds the settings that all topics share.
func (l Layout) spec(name string, partitions int, own ...Setting) TopicSpec {
	return TopicSpec{Name: name, Partitions: partitions, Replicas: l.Replicas, Settings: append([]Setting{
		{Name: "cleanup.policy", Value: "delete", Severity: Error,
			Why: "compaction leaves gaps, and readers start from positions that it removes"},
		{Name: "message.timestamp.type", Value: "CreateTime", Severity: Error,
			Why: "entries are clamped to their message's time: with append time a backlog counts as a burst now"},
		{Name: "retention.bytes", Value: "-1", Severity: Error,
			Why: "a burst would push out what is still needed"},
		{Name: "max.message.bytes", Value: strconv.Itoa(maxMessage), Bound: AtLeast, Severity: Error,
			Why: "batches of frames are refused"},
	}, own...)}
}

func retention(least time.Duration, why string) Setting {
	return Setting{Name: "retention.ms", Value: ms(least), Bound: AtLeast, Severity: Error, Why: why}
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Config returns the settings to create the topic with.
func (s TopicSpec) Config() map[string]string {
	m := make(map[string]string, len(s.Settings))
	for _, o := range s.Settings {
		m[o.Name] = o.Value
	}
	return m
}
