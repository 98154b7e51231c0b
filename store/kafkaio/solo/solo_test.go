package solo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/solo"
)

// next returns the generation of a member that need not wait for it.
func next(t *testing.T, m *solo.Member) *kafkaio.Generation {
	t.Helper()
	gen, err := m.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return gen
}

func over(gen *kafkaio.Generation) bool {
	select {
	case <-gen.Done():
		return true
	default:
		return false
	}
}

func offsets(t *testing.T, c solo.OffsetsConfig) *solo.Offsets {
	t.Helper()
	o, err := solo.OpenOffsets(c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func wantCommitted(t *testing.T, gen *kafkaio.Generation, want map[int]int64) {
	t.Helper()
	if !maps.Equal(gen.Committed, want) {
		t.Errorf("got %v committed, want %v", gen.Committed, want)
	}
}

func TestAMemberHasAllPartitionsUntilClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := solo.New(3)
		var proved []time.Time
		m.OnProof(func(sent time.Time) { proved = append(proved, sent) })
		if len(proved) != 1 || time.Until(proved[0]) < 50*365*24*time.Hour {
			t.Errorf("got proofs of %v, want one that outlives the process", proved)
		}
		gen := next(t, m)
		if want := []int{0, 1, 2}; !slices.Equal(gen.Partitions, want) {
			t.Errorf("got partitions %v, want %v", gen.Partitions, want)
		}
		wantCommitted(t, gen, map[int]int64{0: -1, 1: -1, 2: -1})
		if err := gen.Commit(map[int]int64{1: 5}); err != nil {
			t.Error(err)
		}
		if err := gen.Commit(map[int]int64{3: 5}); err == nil {
			t.Error("got no error of a commit to partition 3, which it has not")
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		if _, err := m.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || over(gen) {
			t.Errorf("got %v from a second Next, want it to wait, and the generation to go on", err)
		}
		if err := m.Close(); err != nil || !over(gen) {
			t.Errorf("got %v from Close, want nil and the generation over", err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("got %v from a second Close, want nil", err)
		}
	})
}

// TestMembersOfAGroupFollowEachOther: an endpoint that is removed from the settings and put back has two members for a moment.
func TestMembersOfAGroupFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := offsets(t, solo.OffsetsConfig{Path: filepath.Join(t.TempDir(), "offsets.json"), Partitions: 1})
		first, second := o.Join("a"), o.Join("a")
		gen := next(t, first)
		then := make(chan *kafkaio.Generation)
		go func() { then <- next(t, second) }()
		synctest.Wait()
		other := o.Join("b")
		wantCommitted(t, next(t, other), map[int]int64{0: -1})
		if err := gen.Commit(map[int]int64{0: 7}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-then:
			t.Error("got two members of a group that have its partitions")
		default:
		}
		_ = first.Close()
		wantCommitted(t, <-then, map[int]int64{0: 7})
	})
}

func TestWhatIsCommittedIsThereAfterARestart(t *testing.T) {
	c := solo.OffsetsConfig{Path: filepath.Join(t.TempDir(), "offsets.json"), Partitions: 2}
	o := offsets(t, c)
	for group, offset := range map[string]int64{"a": 3, "b": 4} {
		if err := next(t, o.Join(group)).Commit(map[int]int64{1: offset}); err != nil {
			t.Fatal(err)
		}
	}
	again := offsets(t, c)
	gen := next(t, again.Join("a"))
	wantCommitted(t, gen, map[int]int64{0: -1, 1: 3})
	if err := gen.Commit(map[int]int64{0: 9}); err != nil {
		t.Fatal(err)
	}
	c.Partitions = 3
	again = offsets(t, c)
	wantCommitted(t, next(t, again.Join("a")), map[int]int64{0: 9, 1: 3, 2: -1})
	wantCommitted(t, next(t, again.Join("b")), map[int]int64{0: -1, 1: 4, 2: -1})
}

// TestOffsetsAreWrittenAfterTheLog: no offset is on disk while the messages before it may be lost in a power loss. What cannot be written is
// not committed, and is written the next time.
func TestOffsetsAreWrittenAfterTheLog(t *testing.T) {
	errFull := errors.New("disk is full")
	failing := true
	c := solo.OffsetsConfig{Path: filepath.Join(t.TempDir(), "offsets.json"), Partitions: 1}
	c.Sync = func() error {
		if failing {
			return errFull
		}
		return nil
	}
	o := offsets(t, c)
	m := o.Join("a")
	gen := next(t, m)
	if err := gen.Commit(map[int]int64{0: 1}); !errors.Is(err, errFull) {
		t.Errorf("got %v from a commit, want %v", err, errFull)
	}
	if _, err := os.Stat(c.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no file yet", err)
	}
	failing = false
	if err := os.Mkdir(c.Path+".new", 0o700); err != nil { // where the new file should go
		t.Fatal(err)
	}
	if err := gen.Commit(map[int]int64{0: 1}); err == nil {
		t.Error("got no error of a commit that cannot be written")
	}
	_ = m.Close()
	gen = next(t, m)
	wantCommitted(t, gen, map[int]int64{0: -1})
	if err := os.Remove(c.Path + ".new"); err != nil {
		t.Fatal(err)
	}
	if err := gen.Commit(map[int]int64{0: 1}); err != nil {
		t.Fatal(err)
	}
	again := offsets(t, c)
	wantCommitted(t, next(t, again.Join("a")), map[int]int64{0: 1})
}

func TestAFileOfNoUseIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets.json")
	for content, want := range map[string]string{
		"":                                       "unexpected end",
		"\x00\x00\x00\x00":                       "invalid character",
		`{"version":1,"groups":{"a":{"0":7`:      "unexpected end",
		`{"version":1,"groups":{}}{}`:            "after top-level value",
		`{"version":2,"leases":[]}`:              "a newer version of floodgate has written it: got version 2, want 1",
		`{"groups":{}}`:                          "got version 0, want 1",
		`{"version":1}`:                          `got no "groups"`,
		`{"version":1,"groups":{},"x":1}`:        "unknown field",
		`{"version":1,"groups":{"a":{"2":7}}}`:   "got offset 7 of partition 2",
		`{"version":1,"groups":{"a":{"0":-1}}}`:  "got offset -1 of partition 0",
		`{"version":1,"groups":{"a":{"0":1e3}}}`: "cannot unmarshal",
		`{"version":1,"groups":{"a":{"0":99999999999999999999}}}`: "cannot unmarshal",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := solo.OpenOffsets(solo.OffsetsConfig{Path: path, Partitions: 2})
		if !errors.Is(err, solo.ErrOffsets) || !strings.Contains(fmt.Sprint(err), path) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: got %v, want an ErrOffsets with the file's name and %q", content, err, want)
		}
	}
	if _, err := solo.OpenOffsets(solo.OffsetsConfig{Path: filepath.Dir(path), Partitions: 2}); err == nil || errors.Is(err, solo.ErrOffsets) {
		t.Errorf("a directory: got %v, want that it cannot be read", err)
	}
}
