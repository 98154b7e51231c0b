package kafkaio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/509da70d/floodgate/schemas"
)

// Defaults of Layout.
const (
	DefaultOutage        = 7 * 24 * time.Hour
	DefaultSnapshotCycle = 10 * time.Minute
)

// eventsRetention is how long the topic of events keeps them.
const eventsRetention = 30 * 24 * time.Hour

// Settings of the topic of requests that keep messages from the future out of it. One of the two is enough. With SettingAhead a broker
// refuses messages that are more than MaxAhead ahead of its own clock; Apache Kafka has it since 3.6. If SettingTimes is AppendTime, the
// broker gives each message the broker's own time.
const (
	SettingAhead = "message.timestamp.after.max.ms"
	MaxAhead     = 2 * time.Second

	SettingTimes = "message.timestamp.type"
	CreateTime   = "CreateTime" // the producer's
	AppendTime   = "LogAppendTime"
)

// Layout says how brokers must keep the topics of an installation. Names and Partitions are needed.
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
	bound       bound
	Severity    Severity // if it is not as wanted
	Why         string   // what goes wrong then, in a sentence
	Else        *Setting // an alternative: a topic that has it need not have this; topics get it if the broker does not know this; nil: none
	CheckOnly   bool     // topics are not created with it: it is a second bound on another Setting
}

// bound says how a topic's value must relate to a Setting's. The zero value is equal.
type bound uint8

// Bounds. atLeast and atMost compare integers, of which -1 (in Kafka: no limit) is the largest.
const (
	equal bound = iota
	atLeast
	atMost
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
	segments := Setting{Name: "segment.ms", Value: ms(segmentTime), bound: atMost, Severity: Warning,
		Why: "retention deletes whole segments: long ones keep the disk full"}
	// Only requests may have the broker's times. An analyzer whose clock is ahead must be able to publish its decisions.
	times := Setting{Name: SettingTimes, Value: CreateTime, Severity: Error,
		Why: "an owner says by the times of its records when gates believe its epoch: " + AppendTime + " is for the topic of requests alone"}
	specs := []TopicSpec{
		l.spec(l.Names.Requests, l.Partitions, append(RequestTimes(), keep)...),
		l.spec(l.Names.Decisions, l.Partitions, times, cycles, segments),
		l.spec(l.Names.State, l.Partitions, times, cycles, segments),
		l.spec(l.Names.Rejects, 1, times, retention(24*time.Hour, "rejects are deleted before a person has read them")),
	}
	if l.Names.Control != "" {
		forever := Setting{Name: "retention.ms", Value: "-1", Severity: Error,
			Why: "a new owner could not apply again what people have decided, and who decided what would be forgotten"}
		specs = append(specs, l.spec(l.Names.Control, 1, times, forever))
	}
	if l.Names.Events != "" {
		specs = append(specs, l.spec(l.Names.Events, l.Partitions,
			times, retention(eventsRetention, "events are deleted before a person or a program has read them"), segments))
	}
	return specs
}

// RequestTimes returns the settings of the topic of requests that decide which times its messages bear.
func RequestTimes() []Setting {
	return []Setting{
		{Name: SettingTimes, Value: CreateTime, Severity: Warning,
			Why: "rules are predicted by early closes only: with the broker's times, shares would not add up for a server whose clock is ahead"},
		{Name: SettingAhead, Value: ms(MaxAhead), bound: atMost, Severity: Error, Else: &Setting{Name: SettingTimes, Value: AppendTime},
			Why: "one message from the future then ends the windows of all callers of its partition; before Kafka 3.6, set " +
				SettingTimes + "=" + AppendTime + " instead"},
	}
}

// spec adds the settings that all topics share.
func (l Layout) spec(name string, partitions int, own ...Setting) TopicSpec {
	return TopicSpec{Name: name, Partitions: partitions, Replicas: l.Replicas, Settings: append([]Setting{
		{Name: "cleanup.policy", Value: "delete", Severity: Error,
			Why: "compaction leaves gaps, and readers start from positions that it removes"},
		{Name: "retention.bytes", Value: "-1", Severity: Error,
			Why: "a burst would delete records that are still needed"},
		{Name: "max.message.bytes", Value: strconv.Itoa(maxMessage), bound: atLeast, Severity: Error,
			Why: "batches of frames are refused"},
		readable(),
	}, own...)}
}

// readable is the bound on the batches of every topic that floodgate reads.
func readable() Setting {
	return Setting{Name: "max.message.bytes", Value: strconv.Itoa(maxBatch), bound: atMost, Severity: Warning, CheckOnly: true,
		Why: "a longer batch is not read: its records are skipped, counted and lost"}
}

// ForeignSpec returns what another program's topic must be so that floodgate can read all of it. It is for CheckTopics
// only.
func ForeignSpec(name string) TopicSpec {
	return TopicSpec{Name: name, Settings: []Setting{readable()}}
}

func retention(minimum time.Duration, why string) Setting {
	return Setting{Name: "retention.ms", Value: ms(minimum), bound: atLeast, Severity: Error, Why: why}
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Config returns the settings to create the topic with.
func (s TopicSpec) Config() map[string]string { return s.config(false) }

// config is Config, or the same for a broker that does not know all settings.
func (s TopicSpec) config(old bool) map[string]string {
	m := make(map[string]string, len(s.Settings))
	for _, o := range s.Settings {
		switch {
		case old && o.Else != nil:
			m[o.Else.Name] = o.Else.Value
		case !o.CheckOnly:
			m[o.Name] = o.Value
		}
	}
	return m
}

// Finding is one way in which a topic is not as it must be.
type Finding struct {
	Topic    string
	Setting  string // "topic", "partitions", or the name of a setting
	Got      string
	Want     string // with ">= " or "<= " where it is a bound
	Severity Severity
	Why      string
}

// String returns the finding as one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s: got %s, want %s: %s", f.Severity, f.Topic, f.Setting, f.Got, f.Want, f.Why)
}

// Severity says how bad a Finding is.
type Severity uint8

// Severities. The zero value says nothing.
const (
	Warning Severity = 1 + iota // works, but not as well as it should
	Error                       // counts or closures will be wrong or lost
)

// String returns "warning" or "error".
func (s Severity) String() string {
	switch s {
	case Warning:
		return "warning"
	case Error:
		return "error"
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// EnsureTopics creates those topics that are missing, with their settings, and waits until their partitions have leaders.
// It returns the names of those it made. Existing topics are left as they are: see CheckTopics. Several processes may
// call it at once.
func (c *Client) EnsureTopics(ctx context.Context, specs ...TopicSpec) (created []string, err error) {
	defer c.observe(OpOther)(&err)
	ctx, done, err := c.begin(ctx, 4*c.config.Timeout)
	if err != nil {
		return nil, err
	}
	defer done()
	c.refresh(c.currentEra()) // the cached metadata may have a topic that was deleted since
	for _, s := range specs {
		made, err := c.ensure(ctx, s)
		if err != nil {
			return created, c.failed("create topic", s.Name, wholeTopic, Unknown, err)
		}
		if made {
			created = append(created, s.Name)
		}
	}
	return created, nil
}

// ensure creates one topic if it does not exist.
func (c *Client) ensure(ctx context.Context, s TopicSpec) (made bool, err error) {
	for old := false; ; old = true {
		err := c.retry(ctx, fetchAttempts, func() error {
			if _, err := c.partitionsOnce(ctx, s.Name, 0); !errors.Is(err, ErrNoTopic) {
				return err
			}
			made = true
			return c.create(ctx, s, s.config(old))
		})
		switch {
		case errors.Is(err, kafka.TopicAlreadyExists):
			made = false // another process was faster
		case !old && errors.Is(err, kafka.InvalidConfiguration):
			continue
		case err != nil:
			return false, err
		}
		return made, c.awaitLeaders(ctx, s)
	}
}

// create sends one request.
func (c *Client) create(ctx context.Context, s TopicSpec, settings map[string]string) error {
	topic := kafka.TopicConfig{Topic: s.Name, NumPartitions: s.Partitions, ReplicationFactor: s.Replicas}
	if s.Replicas <= 0 {
		topic.ReplicationFactor = -1
	}
	for name, value := range settings {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	r, err := c.admin.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err != nil {
		return err
	}
	return r.Errors[s.Name]
}

// awaitLeaders waits until every partition can be used. Kafka shows a leader in its metadata a moment before that broker
// knows that it leads; until then the broker answers NotLeader.
func (c *Client) awaitLeaders(ctx context.Context, s TopicSpec) error {
	for p := 0; ; {
		era := c.currentEra()
		n, err := c.partitionsOnce(ctx, s.Name, p)
		if err == nil {
			_, _, err = c.rangeOnce(ctx, s.Name, p)
		}
		switch {
		case err == nil && p+1 >= n:
			return nil
		case err == nil:
			p++
			continue
		case !Temporary(err) && !errors.Is(err, ErrNoTopic):
			return err
		}
		c.refresh(era)
		if Sleep(ctx, retryPause) != nil {
			return err
		}
	}
}

// CheckTopics compares topics with what they must be. Findings are sorted by topic, the worst of each first. No finding
// means that all is well.
func (c *Client) CheckTopics(ctx context.Context, specs ...TopicSpec) (all []Finding, err error) {
	defer c.observe(OpOther)(&err)
	ctx, done, err := c.begin(ctx, 4*c.config.Timeout)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, s := range specs {
		var found []Finding
		err := c.retry(ctx, fetchAttempts, func() error {
			var err error
			found, err = c.check(ctx, s)
			return err
		})
		if errors.Is(err, ErrNoTopic) {
			found, err = []Finding{{Topic: s.Name, Setting: "topic", Got: "missing, or hidden by ACLs", Want: "a topic of " + partitionsWanted(s.Partitions),
				Severity: Error, Why: "nothing can be written or read: create it, or let this user describe it (ACL)"}}, nil
		}
		if err != nil {
			return nil, c.failed("check topic", s.Name, wholeTopic, Unknown, err)
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(b.Severity, a.Severity))
	})
	return all, nil
}

// check compares one topic.
func (c *Client) check(ctx context.Context, s TopicSpec) ([]Finding, error) {
	n, err := c.partitionsOnce(ctx, s.Name, 0)
	if err != nil {
		return nil, err
	}
	r, err := c.admin.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: s.Name}},
	})
	if err != nil {
		return nil, err
	}
	got := make(map[string]string)
	for _, res := range r.Resources {
		if res.Error != nil {
			return nil, res.Error
		}
		for _, e := range res.ConfigEntries {
			got[e.ConfigName] = e.ConfigValue
		}
	}
	return s.Check(n, got), nil
}

// Check compares a topic's partitions and settings with what they must be. It is pure.
func (s TopicSpec) Check(partitions int, settings map[string]string) []Finding {
	var found []Finding
	if s.Partitions > 0 && partitions != s.Partitions {
		found = append(found, Finding{Topic: s.Name, Setting: "partitions", Got: strconv.Itoa(partitions),
			Want: strconv.Itoa(s.Partitions), Severity: Error, Why: "producers spread callers over another number: counts would split"})
	}
	for _, o := range s.Settings {
		got, known := settings[o.Name]
		if known && o.holds(got) || !known && o.CheckOnly || o.Else != nil && o.Else.holds(settings[o.Else.Name]) {
			continue
		}
		if !known {
			got = "not known to the broker"
		}
		found = append(found, Finding{Topic: s.Name, Setting: o.Name, Got: got, Want: o.want(), Severity: o.Severity, Why: o.Why})
	}
	return found
}

func partitionsWanted(n int) string {
	if n == 0 {
		return "any number of partitions"
	}
	return strconv.Itoa(n) + " partitions"
}

func (s Setting) want() string {
	switch s.bound {
	case atLeast:
		return ">= " + s.Value
	case atMost:
		return "<= " + s.Value
	case equal:
	}
	return s.Value
}

// holds reports whether a topic's value is as wanted.
func (s Setting) holds(got string) bool {
	if s.bound == equal {
		return got == s.Value
	}
	g, err := limit(got)
	if err != nil {
		return false
	}
	w, err := limit(s.Value)
	if err != nil {
		panic("BUG: setting " + s.Name + " wants " + strconv.Quote(s.Value) + ", which is no number")
	}
	if s.bound == atLeast {
		return g >= w
	}
	return g <= w
}

// limit reads a number for which Kafka writes -1 to mean "no limit".
func limit(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if n == -1 {
		n = math.MaxInt64
	}
	return n, err
}
