package analyzer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/rows"
)

// release is a sample of what a release has written: all topics of a partition with four rules and an operator, the store, and what they
// say. Package testdata has one for each release whose formats can be read. Nobody changes the sample of a release that was published.
type release struct {
	Rules  string                      `json:"rules"`
	Topics map[string][]kafkaio.Record `json:"topics"`
	Store  []byte                      `json:"-"`      // a tar archive, in a file of its own
	Rows   []string                    `json:"rows"`   // rule, caller, total
	Closed map[string]int64            `json:"closed"` // what a gate knows: rule and caller → until
}

// TestWhatReleasesHaveWrittenIsRead: an owner goes on from the store of an older release, from its snapshot, and from its log, and gates
// follow its decisions. Without these samples, nobody would notice that a format has changed before a user does.
func TestWhatReleasesHaveWrittenIsRead(t *testing.T) {
	if testenv.Update() {
		synctest.Test(t, writeRelease)
	}
	dirs, err := filepath.Glob("testdata/release-*")
	if err != nil || !slices.Contains(dirs, "testdata/release-"+rows.Since) {
		t.Fatalf("got %q and %v, want a sample of %s among them: %s", dirs, err, rows.Since, testenv.UpdateCommand(t))
	}
	for _, dir := range dirs {
		for _, from := range []string{"store", "snapshot", "log"} {
			t.Run(filepath.Base(dir)+" from the "+from, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { readRelease(t, dir, from) })
			})
		}
	}
}

func readRelease(t *testing.T, dir, from string) {
	t.Helper()
	time.Sleep(24 * time.Hour) // the clock begins anew in each test, and the sample is not from the future
	sample := loadRelease(t, dir)
	w := newWorld(t)
	w.conf.Rules = mustRules(t, sample.Rules)
	for topic, records := range sample.Topics {
		w.log.Edit(topic, 0, func([]kafkaio.Record) []kafkaio.Record { return records })
	}
	if got := w.log.follow(t, 0).closed; !maps.Equal(got, sample.Closed) {
		t.Errorf("a gate: got %v closed, want %v", got, sample.Closed)
	}
	switch from {
	case "store":
		sample.unpack(t, w.conf.Dir)
	case "log":
		w.log.Recreate("state")
	}
	frames := w.atRest().Frames
	if all := uint64(len(sample.Topics["requests"])); (frames == 0) != (from == "store") || (frames >= all/2) != (from == "log") {
		t.Errorf("got %d of %d frames folded again", frames, all)
	}
	w.wantMovedAside(0)
	if got := w.rows(); !slices.Equal(got, sample.Rows) {
		t.Errorf("got rows\n%q, want\n%q", got, sample.Rows)
	}
	w.wantExact()
}

// rows returns what the store holds, in order.
func (w *world) rows() (list []string) {
	w.t.Helper()
	f, _, err := Inspect(w.conf.Dir, w.conf.Rules, w.conf.Fold)
	if err != nil {
		w.t.Fatal(err)
	}
	f.View().Rows(f.LogTime(), func(r fold.Row) bool {
		list = append(list, fmt.Sprintf("%s %s:%s %d", r.Rule.Name, r.Rule.Kind, r.ID, r.Total))
		return true
	})
	slices.Sort(list)
	return list
}

// writeRelease writes the sample of this release: two owners, snapshots, a change of rules, and decisions by hand.
func writeRelease(t *testing.T) {
	t.Helper()
	v := &variedSender{rnd: rand.New(rand.NewPCG(1, 0))}
	sets := foldtest.VariedRules(t)
	w := newWorld(t)
	w.conf.Rules, w.conf.Snapshot, w.conf.Repeat = sets[0], 20*time.Second, 20*time.Second
	op := newOperator(w.log, rand.New(rand.NewPCG(1, 1)), v.callers(), "fixed", "sliding", "log", "bucket", "daily", "cost")
	for _, set := range sets[:2] {
		w.conf.Rules = set
		w.start()
		for range 25 {
			v.send(w)
			if v.rnd.IntN(8) == 0 {
				op.act(t)
			}
			time.Sleep(time.Second)
		}
		w.end()
	}
	sample := release{Rules: string(w.conf.Rules.Text()), Topics: make(map[string][]kafkaio.Record), Rows: w.rows(), Closed: w.log.follow(t, 0).closed}
	for _, topic := range []string{"requests", "decisions", "state", "control", "events"} {
		sample.Topics[topic] = w.log.Records(topic, 0)
	}
	text, err := json.MarshalIndent(sample, "", " ")
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	files := tar.NewWriter(z)
	err = errors.Join(err, files.AddFS(os.DirFS(w.conf.Dir)), files.Close(), z.Close())
	dir := "testdata/release-" + rows.Since
	err = errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "topics.json"), append(text, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "store.tar.gz"), archive.Bytes(), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

func loadRelease(t *testing.T, dir string) (sample release) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "topics.json"))
	if err == nil {
		err = json.Unmarshal(text, &sample)
	}
	archive, more := os.ReadFile(filepath.Join(dir, "store.tar.gz"))
	if err = errors.Join(err, more); err != nil {
		t.Fatal(err)
	}
	sample.Store = archive
	return sample
}

// unpack writes the files of the store to a directory.
func (r *release) unpack(t *testing.T, dir string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(r.Store))
	if err = errors.Join(err, os.MkdirAll(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, filepath.Base(h.Name)), content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
