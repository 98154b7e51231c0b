package filelog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// openOn opens a log of one partition on a disk in memory.
func openOn(t *testing.T, d disk, segment int64) *Log {
	t.Helper()
	l, err := Open("/log", Options{SegmentBytes: segment, disk: d})
	if err == nil {
		_, err = l.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: topicName, Partitions: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func memory() *crashDisk { return newCrashDisk(rand.New(rand.NewPCG(1, 2))) }

// TestARefusedWriteMendsItself: on a disk that is full or read-only for a while, no message is appended in part, and the next one gets the offset.
func TestARefusedWriteMendsItself(t *testing.T) {
	for _, refusal := range []syscall.Errno{syscall.ENOSPC, syscall.EROFS, syscall.EMFILE} {
		for _, what := range []string{"write ", "create "} {
			d := memory()
			l := openOn(t, d, 500)
			for i := range 40 {
				fill(t, l, i, i+1)
				d.fault = func(got string) error {
					if strings.HasPrefix(got, what) {
						return refusal
					}
					return nil
				}
				for range 3 {
					_, err := l.Produce(t.Context(), topicName, 0, kafkaio.Message{Value: make([]byte, 700)}) // longer than what fits
					if !errors.Is(err, refusal) || kafkaio.OutcomeOf(err) != kafkaio.Unsent || !kafkaio.Temporary(err) || !strings.Contains(err.Error(), ".log") {
						t.Fatalf("got %v, want %v with the file, which may pass", err, refusal)
					}
				}
				d.fault = nil
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, openOn(t, d, 500), 0); got != "0-39" {
				t.Errorf("got %s, want what was accepted", got)
			}
		}
	}
}

// TestAFullDiskAtTheStart: after a kill a log that has all its topics opens, and reads, though nothing can be created.
func TestAFullDiskAtTheStart(t *testing.T) {
	d := memory()
	l := openOn(t, d, 1000)
	fill(t, l, 0, 20)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d.fault = func(what string) error {
		if strings.HasPrefix(what, "create ") {
			return syscall.ENOSPC
		}
		return nil
	}
	l = openOn(t, d, 1000)
	if got := contents(t, l, 0); got != "0-19" {
		t.Errorf("got %s, want all", got)
	}
	if err := l.Sync(); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrBroken) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
	d.fault = nil
	fill(t, l, 20, 30)
	if err := l.Sync(); err != nil {
		t.Error(err)
	}
}

// TestAFailedSyncEndsTheLog: nobody knows what is on disk then, and a second sync would say that all is. Readers still read. What is in memory is
// written again when the log is opened, or else a loss of power would lose what the next sync has acknowledged.
func TestAFailedSyncEndsTheLog(t *testing.T) {
	for _, what := range []string{"sync /log/t-0/00000000000000000000.log", "sync /log/t-0"} {
		d := memory()
		l := openOn(t, d, 1000)
		fill(t, l, 0, 20)
		d.fault = func(got string) error {
			if got == what {
				d.fault = nil
				return syscall.EIO
			}
			return nil
		}
		for _, err := range []error{l.Sync(), l.Sync(), produce(t, l)} {
			if !errors.Is(err, ErrBroken) || kafkaio.Temporary(err) || !strings.Contains(err.Error(), "input/output error") {
				t.Errorf("got %v, want %v, and why", err, ErrBroken)
			}
		}
		if got := contents(t, l, 0); got != "0-19" {
			t.Errorf("got %s, want all that was produced", got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = openOn(t, d, 1000)
		fill(t, l, 20, 30)
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		d.lose()
		if got := contents(t, openOn(t, d, 1000), 0); got != "0-29" {
			t.Errorf("got %s, want all that was synced", got)
		}
	}
}

func produce(t *testing.T, l *Log) error {
	t.Helper()
	_, err := l.Produce(t.Context(), topicName, 0, kafkaio.Message{Value: []byte("value")})
	return err
}

// TestFilesAreClosed: a log has few files open, however many segments it has, and none when it is closed, whatever is called then.
func TestFilesAreClosed(t *testing.T) {
	d := memory()
	l := openOn(t, d, 500)
	for i := range 200 {
		fill(t, l, i, i+1)
		if i%50 == 49 {
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d.opened > 1 {
		t.Errorf("got %d open files, want the last segment", d.opened)
	}
	contents(t, l, 0)
	list, err := l.Segments(topicName, 0)
	if err != nil || d.opened > 1 {
		t.Errorf("got %v and %d open files, want the last segment", err, d.opened)
	}
	fill(t, l, 200, 250) // a sync that fails is said to those who have the file open
	if more, err := l.Segments(topicName, 0); err != nil || d.opened < len(more)-len(list) {
		t.Errorf("got %d open files, %v, want those that are not synced", d.opened, err)
	}
	if err := l.Trim(topicName, 0, 230); err != nil {
		t.Fatal(err)
	}
	if list, err := l.Segments(topicName, 0); err != nil || list[0].Next != 200 && list[0].Base < 190 || d.opened > len(list) {
		t.Errorf("got %d segments from %d on, %v, and %d open files", len(list), list[0].Base, err, d.opened)
	}
	_, p, err := l.find(topicName, 0)
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	_, late := p.read(240, 0) // by a call that was on its way
	_, listed := l.Segments(topicName, 0)
	_, ensured := l.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "other", Partitions: 1})
	for _, err := range []error{l.Sync(), late, listed, ensured} {
		if !errors.Is(err, kafkaio.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	}
	if d.opened != 0 {
		t.Errorf("got %d open files, want none", d.opened)
	}
}

// TestASegmentThatIsMissing: a person has removed a file. Readers are told which offsets are missing, and pass over them.
func TestASegmentThatIsMissing(t *testing.T) {
	for at, want := range map[int]string{0: "!0-11 12-59", 2: "0-23 !24-35 36-59", 4: "0-47 60-69"} {
		dir := t.TempDir()
		l, _ := openLog(t, dir, 1000)
		fill(t, l, 0, 60)
		if err := errors.Join(l.Sync(), l.Close(), os.Remove(files(t, dir)[at])); err != nil {
			t.Fatal(err)
		}
		l, said := openLog(t, dir, 1000)
		if _, end, err := l.Range(t.Context(), topicName, 0); err != nil || end != 60 {
			t.Errorf("got end %d, %v, want 60", end, err)
		}
		if at == 4 {
			if !strings.Contains(said.String(), "the end of the log is missing") {
				t.Errorf("got %q, want it said", said)
			}
			fill(t, l, 60, 70)
			want = "0-47 !48-59 60-69"
		}
		if got := contents(t, l, 0); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if at == 2 {
			_, err := l.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topicName, Offset: 30})
			if c, ok := errors.AsType[*kafkaio.CorruptError](err); !ok || c.From != 30 || c.To != 35 || !strings.Contains(c.Detail, "the file ends before offset 24") {
				t.Errorf("got %v, want 30 to 35, and why", err)
			}
		}
	}
}

// TestTheBeginningIsMissing: a person has restored an older file of recovery points. Nothing that was on disk is removed.
func TestTheBeginningIsMissing(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1000)
	fill(t, l, 0, 20)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(filepath.Join(dir, pointsName))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, l, 20, 60)
	if err := errors.Join(l.Sync(), l.Trim(topicName, 0, 40), l.Close(), os.WriteFile(filepath.Join(dir, pointsName), old, 0o600)); err != nil {
		t.Fatal(err)
	}
	l, said := openLog(t, dir, 1000)
	if got := contents(t, l, 0); got != "!0-35 36-59" || !strings.Contains(said.String(), "the beginning of the log is missing") {
		t.Errorf("got %s and %q, want what is there", got, said)
	}
}

// TestForeignFiles: what the log has not made, it neither reads nor changes, and a number in a name makes no directories.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 0, 10, 10)
	names := []string{"notes", "dump-20261127/00000000000000000000.log", "t-2/x", "t-0/00000000000000000000.index", "t-0/5.log", "t-0/+0000000000000000005.log"}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("foreign"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	l, said := openLog(t, dir, 0)
	fill(t, l, 10, 20)
	if got := contents(t, l, 0); got != "0-19" || !strings.Contains(said.String(), "dump-20261127") {
		t.Errorf("got %s and %q, want all, and the directory named", got, said)
	}
	for _, name := range names {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "foreign" {
			t.Errorf("%s: got %q, %v, want it as it was", name, b, err)
		}
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) != 5 {
		t.Errorf("got %v, %v, want t-0, t-2, dump, notes and the recovery points", found, err)
	}
}

// TestRecoveryPointsThatAreDamaged: no log is opened with them, and the error says what to do. Without the file, all is read.
func TestRecoveryPointsThatAreDamaged(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1000)
	fill(t, l, 0, 60)
	if err := errors.Join(l.Sync(), l.Trim(topicName, 0, 24), l.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, pointsName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if p, err := parsePoints(whole[:n]); !errors.Is(err, ErrPoints) {
			t.Fatalf("first %d bytes: got %v and %v", n, p, err)
		}
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[n] ^= 1 << bit
			if p, err := parsePoints(b); !errors.Is(err, ErrPoints) {
				t.Fatalf("%q: got %v and %v", b, p, err)
			}
		}
	}
	edit(t, path, func(b []byte) []byte { return bytes.Replace(b, []byte("points 1"), []byte("points 2"), 1) })
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrPoints) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v, want it refused, and the file named", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l, _ = openLog(t, dir, 1000)
	fill(t, l, 60, 70)
	if got := contents(t, l, 24); got != "24-69" {
		t.Errorf("got %s, want all", got)
	}
}

// TestASegmentThatGoesOnBehindItsSuccessorsBase: what a person has put together. Each offset has one record.
func TestASegmentThatGoesOnBehindItsSuccessorsBase(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 1000, 36, 36)
	segments := files(t, dir)
	foreign := batchOf(12, "foreign", "foreign")
	edit(t, segments[0], func(b []byte) []byte { return append(b, foreign...) })
	l, _ := openLog(t, dir, 1000)
	if got := contents(t, l, 0); got != "0-35" {
		t.Errorf("got %s, want those of the files that are named so", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	foreign = batchOf(11, "value 011", "foreign")
	edit(t, segments[0], func(b []byte) []byte { return append(b[:11*batchBytes], foreign...) })
	l, _ = openLog(t, dir, 1000)
	if got := contents(t, l, 0); got != "0-10 !11-11 12-35" {
		t.Errorf("got %s, want no record of two files", got)
	}
}

// TestOtherSegmentBytes: a log may be opened with another length of segments.
func TestOtherSegmentBytes(t *testing.T) {
	dir := t.TempDir()
	for i, segment := range []int64{1, 1000, 100_000, 500} {
		l, _ := openLog(t, dir, segment)
		fill(t, l, 30*i, 30*i+30)
		if got, want := contents(t, l, 0), fmt.Sprintf("0-%d", 30*i+29); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if list, err := l.Segments(topicName, 0); err != nil || len(list) != len(files(t, dir)) {
			t.Errorf("got %d segments, %v, want the %d files", len(list), err, len(files(t, dir)))
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatAClientSendsIsNoBatch: a client sends what looks like batches, in the hope that the one around it is damaged. It does not know offsets.
func TestWhatAClientSendsIsNoBatch(t *testing.T) {
	var forged []byte
	for i := range 10 { // so few that the batch around them is not packed, which would hide them
		forged = append(forged, batchOf(int64(3+i%5), "forged")...)
	}
	for _, at := range []int{3, 8, 9, 10, 11, 16, 60, 70, 300} { // of the header, and of what the client has sent
		dir := t.TempDir()
		l, _ := openLog(t, dir, 1<<20)
		fill(t, l, 0, 2)
		if _, err := l.Produce(t.Context(), topicName, 0, kafkaio.Message{Value: forged}); err != nil {
			t.Fatal(err)
		}
		fill(t, l, 3, 20)
		if err := errors.Join(l.Sync(), l.Close()); err != nil {
			t.Fatal(err)
		}
		edit(t, files(t, dir)[0], func(b []byte) []byte { b[2*batchBytes+at] ^= 1; return b })
		l, _ = openLog(t, dir, 1<<20)
		if got := contents(t, l, 0); got != "0-1 !2-2 3-19" {
			t.Errorf("byte %d: got %s, want one record missing", at, got)
		}
	}
}

// TestTheLastMessageIsNoBatch: it ends where the file does, but not with the last offset.
func TestTheLastMessageIsNoBatch(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1<<20)
	fill(t, l, 0, 2)
	msgs := make([]kafkaio.Message, 10)
	forged := batchOf(5, "forged")
	msgs[9].Value = forged[:len(forged)-1] // a zero ends each message
	if _, err := l.Produce(t.Context(), topicName, 0, msgs...); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Sync(), l.Close()); err != nil {
		t.Fatal(err)
	}
	edit(t, files(t, dir)[0], func(b []byte) []byte { b[2*batchBytes+11] ^= 1; return b })
	l, _ = openLog(t, dir, 1<<20)
	if got := contents(t, l, 0); got != "0-1 !2-11" {
		t.Errorf("got %s, want the last batch missing", got)
	}
}

// TestEachDamageCostsItsBatch: also if one follows another, near or far.
func TestEachDamageCostsItsBatch(t *testing.T) {
	const size, records = 10_000, 600
	dir := t.TempDir()
	l, _ := openLog(t, dir, 64<<20)
	for range records {
		if _, err := l.Produce(t.Context(), topicName, 0, kafkaio.Message{Value: noise(size)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(l.Sync(), l.Close()); err != nil {
		t.Fatal(err)
	}
	edit(t, files(t, dir)[0], func(b []byte) []byte {
		batch := len(b) / records
		b[2*batch+500] ^= 1          // what is within
		b[4*batch+10] ^= 1           // a length
		b[(records-10)*batch+9] ^= 1 // another
		return b
	})
	l, _ = openLog(t, dir, 64<<20)
	c := kafkaio.NewCursor(l, kafkaio.CursorConfig{Topic: topicName, MaxWait: -1, CorruptTries: 1})
	var missing []int64
	for c.Offset() < records {
		b, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range b.Skipped {
			missing = append(missing, s.From, s.To)
		}
	}
	if want := []int64{2, 2, 4, 4, records - 10, records - 10}; !slices.Equal(missing, want) {
		t.Errorf("got %v missing, want %v", missing, want)
	}
}

// badSector is a disk on which a part of the first segment cannot be read.
type badSector struct{ disk }

type badFile struct{ file }

func (d badSector) open(path string, create bool) (file, error) {
	f, err := d.disk.open(path, create)
	if err == nil && baseOf(filepath.Base(path)) == 0 {
		f = badFile{f}
	}
	return f, err
}

func (f badFile) ReadAt(b []byte, at int64) (int, error) {
	if at < 3*sector && at+int64(len(b)) > 2*sector {
		return 0, fmt.Errorf("read: %w", syscall.EIO)
	}
	return f.file.ReadAt(b, at)
}

// TestABadSectorIsDamage: readers are told which offsets it has cost, and why, and read what is around it.
func TestABadSectorIsDamage(t *testing.T) {
	d := memory()
	l := openOn(t, d, 100_000)
	fill(t, l, 0, 300)
	if err := errors.Join(l.Sync(), l.Close()); err != nil {
		t.Fatal(err)
	}
	l = openOn(t, badSector{d}, 100_000)
	from, to := 2*sector/batchBytes, (3*sector-1)/batchBytes
	if got, want := contents(t, l, 0), fmt.Sprintf("0-%d !%d-%d %d-299", from-1, from, to, to+1); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err := l.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topicName, Offset: int64(from)})
	if !errors.Is(err, kafkaio.ErrCorrupt) || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("got %v, want why", err)
	}
}

// TestWhatIsBehindAMissingEndGoes: it was never synced, and lacks what is before it.
func TestWhatIsBehindAMissingEndGoes(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 1000, 20, 60)
	edit(t, files(t, dir)[1], func(b []byte) []byte { return b[:3*batchBytes] })
	l, _ := openLog(t, dir, 1000)
	fill(t, l, 20, 40)
	if got := contents(t, l, 0); got != "0-14 !15-19 20-39" {
		t.Errorf("got %s, want a gap before the recovery point", got)
	}
}

// TestADirectoryThatIsMissing: a person has removed a partition, but not its topic. No offset is used twice.
func TestADirectoryThatIsMissing(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 1000)
	if _, err := l.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: topicName, Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 0, 20)
	if err := errors.Join(l.Sync(), l.Close(), os.RemoveAll(filepath.Join(dir, "t-0"))); err != nil {
		t.Fatal(err)
	}
	l, said := openLog(t, dir, 1000)
	if !strings.Contains(said.String(), "the end of the log is missing") {
		t.Errorf("got %q, want it said", said)
	}
	fill(t, l, 20, 30)
	if got := contents(t, l, 0); got != "!0-19 20-29" {
		t.Errorf("got %s, want what came after", got)
	}
}

// TestLittleIsReadAndSynced: a log is opened without a look at what is before the recovery points, a Sync touches only what is new, and a reader
// does not begin at the start of a segment.
func TestLittleIsReadAndSynced(t *testing.T) {
	d := memory()
	l := openOn(t, d, 1<<20)
	value := noise(10_000)
	for range 250 {
		if _, err := l.Produce(t.Context(), topicName, 0, kafkaio.Message{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(l.Sync(), l.Close()); err != nil {
		t.Fatal(err)
	}
	reads := func(most int, f func()) {
		t.Helper()
		d.read = 0
		f()
		if d.read > most {
			t.Errorf("got %d bytes read, want up to %d", d.read, most)
		}
	}
	var changes []string
	d.step = func(what string) error {
		changes = append(changes, what)
		return nil
	}
	reads(200, func() { l = openOn(t, d, 1<<20) })
	if want := []string{"sync /", "sync /log"}; !slices.Equal(changes, want) {
		t.Errorf("got %q when it was opened, want %q", changes, want)
	}
	fetch := func(offset int64) {
		if _, err := l.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topicName, Offset: offset, MaxBytes: 1}); err != nil {
			t.Fatal(err)
		}
	}
	reads(2<<20, func() { fetch(95) })
	reads(200_000, func() { fetch(96) })
	reads(200_000, func() { fetch(40) })
	_, p, err := l.find(topicName, 0)
	if err != nil || len(p.segments[0].index) == 0 || len(p.segments[0].index) > 1<<20/indexEvery {
		t.Fatalf("got %d entries of an index, %v, want one for each %d bytes at most", len(p.segments[0].index), err, indexEvery)
	}
	if err := produce(t, l); err != nil {
		t.Fatal(err)
	}
	changes = nil
	if err := l.Sync(); err != nil || len(changes) == 0 || changes[0] != "sync /log/t-0/00000000000000000208.log" || strings.Contains(changes[1], "t-0") {
		t.Errorf("got %v, %q, want the last segment synced, and nothing else of the partition", err, changes)
	}
	changes = nil
	if err := l.Sync(); err != nil || len(changes) > 0 {
		t.Errorf("got %v, %q, want nothing to do", err, changes)
	}
}

// TestTopicsThatWereMadeInPart: power was lost while their directories were made.
func TestTopicsThatWereMadeInPart(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, topicName+"-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := Open(dir, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	created, err := l.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: topicName, Partitions: 3})
	if n, counted := l.Partitions(t.Context(), topicName); err != nil || counted != nil || n != 3 || len(created) != 1 {
		t.Errorf("got %d partitions, %v, %v, want 3", n, err, counted)
	}
}
