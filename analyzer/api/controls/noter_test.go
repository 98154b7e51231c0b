package controls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// notedTopic is a control topic in memory: what is written to it is known to those who follow it at once, unless it is slow.
type notedTopic struct {
	mu       sync.Mutex
	follower *Follower
	written  []schemas.Control
	away     error // of each Append
	slow     bool  // followers know nothing of what is written
}

func newNotedTopic() *notedTopic {
	f := New(Config{})
	f.ready = true
	return &notedTopic{follower: f}
}

func (f *notedTopic) Append(_ context.Context, c *schemas.Control) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away != nil {
		return -1, f.away
	}
	if _, err := pb.AppendControl(nil, c); err != nil {
		return -1, err
	}
	offset := int64(len(f.written))
	f.written = append(f.written, *c)
	if !f.slow {
		f.follower.mu.Lock()
		defer f.follower.mu.Unlock()
		f.follower.add(api.Record{Control: *c, Offset: offset})
	}
	return offset, nil
}

func (f *notedTopic) set(away error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *notedTopic) notes() []schemas.Control {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]schemas.Control(nil), f.written...)
}

// limited returns rules whose only limit is n.
func limited(t *testing.T, n int) *rules.Set {
	t.Helper()
	set, err := rules.Parse("rules", fmt.Appendf(nil, "version: 1\nrules: [{name: a, callers: key, limit: %d, window: 1m}]\n", n))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// lockedLog is a log that may be read while it is written.
type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// noter runs a Noter in a bubble of synctest, where time goes on when all wait.
func (f *notedTopic) noter(t *testing.T, c NoterConfig) (*Noter, *lockedLog) {
	t.Helper()
	log := new(lockedLog)
	c.Records, c.Writer, c.Logger = f.follower, f, slog.New(slog.NewTextHandler(log, nil))
	if c.Author == "" {
		c.Author, c.File = "host/1", "rules.yaml"
	}
	n := NewNoter(c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
	return n, log
}

// TestEachVersionIsNotedOnce, with its text, its author and its file, over all analyzers, however often it is taken over.
func TestEachVersionIsNotedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newNotedTopic()
		a, _ := topic.noter(t, NoterConfig{})
		b, _ := topic.noter(t, NoterConfig{Author: "other/2", File: "b.yaml"})
		one, two := limited(t, 1), limited(t, 2)
		a.Note(one)
		time.Sleep(time.Minute)
		for _, set := range []*rules.Set{one, two, one, limited(t, 2)} { // a file that is put back, and one that is read again
			b.Note(set)
			time.Sleep(time.Minute)
			a.Note(set)
			time.Sleep(time.Minute)
		}
		notes := topic.notes()
		if len(notes) != 2 || notes[0].RulesID != one.ID() || notes[1].RulesID != two.ID() {
			t.Fatalf("got %+v, want each version once", notes)
		}
		if n := notes[0]; n.Author != "host/1" || n.Reason != "rules.yaml" || !bytes.Equal(n.Text, one.Text()) || n.Time == 0 || n.ID == (schemas.ControlID{}) {
			t.Errorf("got %+v", n)
		}
		if n := notes[1]; n.Author != "other/2" || n.Reason != "b.yaml" {
			t.Errorf("got %+v, want the one that took it over first", n)
		}
	})
}

// TestTwoThatStartAtOnceMayBothNote: neither knows of the other's note yet. Readers show the first.
func TestTwoThatStartAtOnceMayBothNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newNotedTopic()
		topic.slow = true
		a, _ := topic.noter(t, NoterConfig{Spread: -1})
		b, _ := topic.noter(t, NoterConfig{Spread: -1, Author: "other/2", File: "b.yaml"})
		a.Note(limited(t, 1))
		synctest.Wait()
		b.Note(limited(t, 1))
		synctest.Wait()
		a.Note(limited(t, 1)) // its own note is known to it
		time.Sleep(time.Hour)
		notes := topic.notes()
		if len(notes) != 2 {
			t.Fatalf("got %d notes, want one of each", len(notes))
		}
		f := New(Config{})
		for i, c := range notes {
			f.add(api.Record{Control: c, Offset: int64(i)})
		}
		if v, ok := f.Version(limited(t, 1).ID()); !ok || v.Author != "host/1" || len(f.Versions()) != 1 {
			t.Errorf("got %+v, want the first note only", f.Versions())
		}
	})
}

// TestNotesWaitForKafka: nobody waits for a note, the log has one line about all attempts, and nothing is lost. It is the same
// whether the topic is missing or the brokers are away.
func TestNotesWaitForKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newNotedTopic()
		topic.follower.ready = false
		n, log := topic.noter(t, NoterConfig{})
		for i := range 3 {
			n.Note(limited(t, 1+i))
		}
		time.Sleep(time.Hour)
		topic.set(errors.New("unknown topic"))
		topic.follower.mu.Lock()
		topic.follower.ready = true
		topic.follower.mu.Unlock()
		time.Sleep(time.Hour)
		if len(topic.notes()) != 0 || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "the topic cannot be read") {
			t.Errorf("got %d notes and the log\n%s\nwant no note and one line", len(topic.notes()), log)
		}
		topic.set(nil)
		time.Sleep(time.Minute)
		if notes := topic.notes(); len(notes) != 3 || notes[0].RulesID != limited(t, 1).ID() || notes[2].RulesID != limited(t, 3).ID() {
			t.Errorf("got %+v, want all three in their order", notes)
		}
		topic.set(errors.New("not again"))
		n.Note(limited(t, 9))
		time.Sleep(time.Hour)
		if strings.Count(log.String(), "not again") != 1 {
			t.Errorf("got the log\n%s\nwant a line for the second time that Kafka is away", log)
		}
	})
}

// TestNotesInHand are bounded: a file that changes each second for a day while Kafka is away takes no memory, and the newest
// versions stay.
func TestNotesInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newNotedTopic()
		topic.away = errors.New("away")
		n, _ := topic.noter(t, NoterConfig{})
		for i := range 1000 {
			n.Note(limited(t, 1+i))
			n.Note(limited(t, 1+i))
		}
		time.Sleep(time.Hour)
		topic.set(nil)
		time.Sleep(time.Hour)
		notes := topic.notes()
		if len(notes) > maxWaiting+1 || notes[len(notes)-1].RulesID != limited(t, 1000).ID() {
			t.Errorf("got %d notes, want the newest %d", len(notes), maxWaiting)
		}
	})
}

// TestANoteCanAlwaysBeWritten, whatever the machine and the file are called, and however long the file is.
func TestANoteCanAlwaysBeWritten(t *testing.T) {
	comment := "# " + strings.Repeat("x", schemas.MaxControlText) + "\n"
	long, err := rules.Parse("rules", append([]byte(comment), limited(t, 7).Text()...))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		author, file string
		set          *rules.Set
	}{
		"no names":   {"", "", limited(t, 1)},
		"long names": {strings.Repeat("ü", 300), strings.Repeat("/ü", 300), limited(t, 2)},
		"not UTF-8":  {"h\xff/1", "r\xfe.yaml", limited(t, 3)},
		"long file":  {"host/1", "rules.yaml", long},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				topic := newNotedTopic()
				c := NoterConfig{Records: topic.follower, Writer: topic, Author: test.author, File: test.file}
				n := NewNoter(c)
				ctx, cancel := context.WithCancel(t.Context())
				n.Note(test.set)
				go func() { _ = n.Run(ctx) }() // nil
				time.Sleep(time.Minute)
				cancel()
				notes := topic.notes()
				if len(notes) != 1 || notes[0].RulesID != test.set.ID() || !utf8.ValidString(notes[0].Author+notes[0].Reason) {
					t.Fatalf("got %.200v", notes)
				}
				if long := len(test.set.Text()) > schemas.MaxControlText; long != (len(notes[0].Text) == 0) {
					t.Errorf("got a text of %d bytes of %d", len(notes[0].Text), len(test.set.Text()))
				}
			})
		})
	}
}

// TestNoSecretIdIsNoted: what analyzers write into Kafka has the hash of an id whose kind is secret.
func TestNoSecretIdIsNoted(t *testing.T) {
	hasher, err := schemas.NewIDHasher([]string{"key"}, bytes.Repeat([]byte("s"), 32))
	if err != nil {
		t.Fatal(err)
	}
	text := "version: 1\nrules: [{name: a, callers: key, limit: 5, window: 1m, overrides: {sk-live-4711: 9}}] # sk-live-4711\n"
	set, err := rules.ParseWith("rules", []byte(text), schemas.IDs{Hash: hasher})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		topic := newNotedTopic()
		n, log := topic.noter(t, NoterConfig{})
		n.Note(set)
		time.Sleep(time.Minute)
		notes := topic.notes()
		if len(notes) != 1 || bytes.Contains(notes[0].Text, []byte("4711")) || strings.Contains(log.String(), "4711") {
			t.Fatalf("got %s and log %s", notes[0].Text, log)
		}
		if again, err := rules.Parse("noted", notes[0].Text); err != nil || again.ID() != notes[0].RulesID {
			t.Errorf("got %v, want a text that gives the id without the secret", err)
		}
	})
}

// TestManyVersionsAreBounded: a follower forgets the oldest, and knows the newest.
func TestManyVersionsAreBounded(t *testing.T) {
	f := New(Config{Max: 16})
	for i := range uint64(3 * maxVersions) {
		f.add(api.Record{Control: schemas.Control{Action: schemas.ControlRules, RulesID: i}, Offset: int64(i)})
		f.add(api.Record{Control: schemas.Control{Action: schemas.ControlRules, RulesID: i, Author: "late"}, Offset: int64(i)})
	}
	list := f.Versions()
	if len(list) > maxVersions || len(list) < maxVersions/2 || list[0].RulesID != 3*maxVersions-1 || list[0].Author != "" {
		t.Errorf("got %d versions, the newest %+v", len(list), list[0])
	}
	for i, r := range list {
		if v, ok := f.Version(r.RulesID); !ok || v.Offset != r.Offset || r.RulesID != list[0].RulesID-uint64(i) {
			t.Fatalf("version %d: got %+v, %v", r.RulesID, v, ok)
		}
	}
	if _, ok := f.Version(0); ok {
		t.Error("the oldest version is still there")
	}
	f.clear()
	if len(f.Versions()) != 0 {
		t.Error("versions of a topic that was made anew are shown")
	}
}
