package migrate

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/decisions"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

func TestMain(m *testing.M) {
	testenv.LazyGC()
	m.Run()
}

const partitions = 2

// allRules has a rule of each algorithm.
func allRules(t *testing.T) *rules.Set {
	t.Helper()
	return foldtest.Rules(t,
		"{name: fixed, callers: key, limit: 6, window: 1m, algorithm: fixed, close_for: 10m, escalate: {factor: 2, max: 2h, forget: 24h}}",
		"{name: sliding, callers: key, limit: 8, window: 5m, slots: 5, close_for: 2m}",
		"{name: log, callers: ip, limit: 5, window: 10m, algorithm: log}",
		"{name: bucket, callers: key, limit: 10, window: 1m, algorithm: gcra, burst: 4, count_blocked: true}",
		"{name: cost, callers: key, limit: 20, window: 1h, measure: cost, mode: shadow}",
		"{name: monthly, callers: ip, limit: 60, window: month, timezone: Europe/Berlin}")
}

// topicsOf returns the names of an installation's topics.
func topicsOf(prefix string) schemas.TopicNames { return schemas.TopicNamesOf(prefix) }

func newKafka(prefix string) *kafkaiotest.Kafka {
	k, t := kafkaiotest.New(), topicsOf(prefix)
	k.Create(partitions, t.Requests, t.Decisions, t.State, t.Rejects, t.Events)
	k.Create(1, t.Control)
	k.SetMaxRecords(7) // so that there are several batches
	return k
}

// site is an installation: a log, and the stores of its owners.
type site struct {
	t      *testing.T
	log    *kafkaiotest.Kafka
	on     kafkaio.Log // in place of log, for its owners
	topics schemas.TopicNames
	dir    string
	conf   analyzer.OwnerConfig
	owners []*analyzer.Owner
	stop   context.CancelFunc
	done   chan error
}

func newSite(t *testing.T, log *kafkaiotest.Kafka, prefix string, set *rules.Set) *site {
	t.Helper()
	s := &site{t: t, log: log, topics: topicsOf(prefix), dir: t.TempDir()}
	s.conf = analyzer.OwnerConfig{
		Requests: s.topics.Requests, Decisions: s.topics.Decisions, State: s.topics.State, Rejects: s.topics.Rejects, Control: s.topics.Control,
		Events: s.topics.Events, Rules: set, Name: prefix, Snapshot: time.Minute,
	}
	s.conf.Fold.Partitions = partitions
	s.conf.Store.NoSync = true
	return s
}

// start runs owners of all partitions until end.
func (s *site) start() {
	ctx, stop := context.WithCancel(s.t.Context())
	s.owners, s.stop, s.done = nil, stop, make(chan error, partitions)
	for p := range partitions {
		c := s.conf
		c.Fold.Partition, c.Dir = p, filepath.Join(s.dir, strconv.Itoa(p))
		log := s.on
		if log == nil {
			log = s.log
		}
		o := analyzer.NewOwner(log, c)
		s.owners = append(s.owners, o)
		go func() { s.done <- o.Run(ctx) }()
	}
}

// end stops the owners as SIGTERM would.
func (s *site) end() {
	s.t.Helper()
	s.stop()
	for range partitions {
		if err := <-s.done; err != nil {
			s.t.Fatalf("%s: owner: %v", s.conf.Name, err)
		}
	}
}

// rest runs owners over what the log holds, and stops them.
func (s *site) rest() {
	s.t.Helper()
	s.start()
	time.Sleep(3 * time.Second)
	s.end()
}

// message is one for a partition of requests.
type message struct {
	partition int
	value     []byte
}

func (s *site) send(list ...message) {
	for _, m := range list {
		s.log.Append(s.topics.Requests, m.partition, kafkaio.Message{Time: time.Now().UnixNano(), Value: m.value})
	}
}

// decide writes what a person decides.
func (s *site) decide(c schemas.Control) {
	s.t.Helper()
	if _, err := analyzer.NewControlWriter(s.log, s.topics.Control, nil).Append(s.t.Context(), &c); err != nil {
		s.t.Fatal(err)
	}
}

// stored is the rows of all stores, by partition and key. Control records are without their offsets.
func (s *site) stored(kinds ...fold.RowKind) map[string]string {
	s.t.Helper()
	rows := make(map[string]string)
	for p := range partitions {
		st, err := store.Open(filepath.Join(s.dir, strconv.Itoa(p)), s.conf.Store)
		if err != nil {
			s.t.Fatal(err)
		}
		err = st.Load(func(key, value []byte) error {
			for _, kind := range kinds {
				if fold.KindOf(key) != kind {
					continue
				}
				if kind == fold.ControlRow {
					r, err := override.ReadRecord(key, value)
					if err != nil {
						return err
					}
					r.Offset, r.From = 0, 0
					_, value = r.Encode()
				}
				rows[strconv.Itoa(p)+string(key)] = string(value)
			}
			return nil
		})
		if err := errors.Join(err, st.Check(), st.Close()); err != nil {
			s.t.Fatal(err)
		}
	}
	return rows
}

// closure is what a gate believes.
type closure struct {
	closeAt, until int64
	mode           schemas.Mode
}

// closed returns what a gate believes that starts now, by rule and caller.
func (s *site) closed() map[string]closure {
	s.t.Helper()
	now, closed := time.Now().UnixNano(), make(map[string]closure)
	for p := range partitions {
		log := kafkaio.NewCursor(s.log, kafkaio.CursorConfig{Topic: s.topics.Decisions, Partition: p, MaxBytes: 1 << 20})
		place, err := decisions.Find(s.t.Context(), log, int32(p), time.Now)
		if err != nil {
			s.t.Fatal(err)
		}
		judge := decisions.Follower{Partition: int32(p)}
		judge.Start(place)
		log.MoveTo(place.Read)
		err = log.Scan(s.t.Context(), place.End, func(b *kafkaio.Batch) error {
			for i := range b.Records {
				r, err := judge.Take(&b.Records[i], now)
				if err != nil || r.Decision == nil {
					continue
				}
				d, key := r.Decision, r.Decision.Rule+" "+r.Decision.Caller.String()
				if closed[key] = (closure{d.CloseAt, d.Until, d.Mode}); d.Until <= now || d.Until <= d.CloseAt {
					delete(closed, key)
				}
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return closed
}

// traffic makes messages at random: of three recorders and one source of lines, late entries, and copies.
type traffic struct {
	t    *testing.T
	rnd  *rand.Rand
	ids  int
	seqs [partitions][3]uint64
	line int64
	sent []message
}

func (v *traffic) id() string { return "10.0.0." + strconv.Itoa(v.rnd.IntN(v.ids)) }

func (v *traffic) callers() (list []schemas.Caller) {
	for i := range v.ids {
		id := "10.0.0." + strconv.Itoa(i)
		list = append(list, schemas.Caller{Kind: "key", ID: id}, schemas.Caller{Kind: "ip", ID: id})
	}
	return list
}

// next returns a message for each partition.
func (v *traffic) next() []message {
	now := time.Now().UnixNano()
	var frames [partitions]schemas.Frame
	from := v.rnd.IntN(4)
	for range 1 + v.rnd.IntN(10) {
		e := schemas.Entry{
			Time: now - v.rnd.Int64N(int64([]time.Duration{1, time.Second, time.Minute, 2 * time.Hour}[v.rnd.IntN(4)])),
			Kind: []string{"key", "ip"}[v.rnd.IntN(2)], ID: v.id(), Count: 1 + v.rnd.Uint32N(3), Blocked: v.rnd.IntN(5) == 0,
		}
		if v.rnd.IntN(4) == 0 {
			e.Response, e.Status, e.Cost = true, 500, v.rnd.Int64N(5)
		}
		if from == 3 {
			v.line++
			e.Offset = v.line
		}
		f := &frames[schemas.Partition(schemas.DefaultPartitionKey().Hash(e.Kind, e.ID), partitions)]
		f.Entries = append(f.Entries, e)
	}
	var list []message
	for p := range frames {
		f := &frames[p]
		if len(f.Entries) == 0 {
			continue
		}
		f.Producer, f.Flushed, f.Partitions, f.Fingerprint = foldtest.Producer(1+from), now, partitions, schemas.DefaultPartitionKey().Fingerprint()
		if f.Source = from == 3; !f.Source {
			v.seqs[p][from]++
			f.Seq = v.seqs[p][from]
		}
		list = append(list, message{p, foldtest.Encode(v.t, *f)})
	}
	v.sent = append(v.sent, list...)
	return list
}

// migrateTo migrates a site to another one.
func (s *site) migrateTo(target *kafkaiotest.Kafka, prefix, dir string) (Report, error) {
	return Run(s.t.Context(), s.migration(target, prefix, dir))
}

func (s *site) migration(target Target, prefix, dir string) Config {
	return Config{
		Source: s.log, Target: target, Owner: s.conf, Data: s.dir, Dir: dir, Topics: topicsOf(prefix),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
}
