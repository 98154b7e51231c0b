package repeats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestKafkaAwayIsOneLineAMinute: an analyzer of eight partitions loses Kafka for five minutes. Each partition warns of four
// things ten times a second, and the log has six lines of it, with the number of the others.
func TestKafkaAwayIsOneLineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(New(slog.NewTextHandler(&out, nil)))
		warned := 0
		for range 5*60*10 + 1 {
			for p := range 8 {
				l := log.With("topic", fmt.Sprint("t", p%3), "partition", p)
				l.Warn("cannot read, trying again", "failed", 10, "error", io.EOF)
				l.Warn("cannot append, trying again", "failed", 10, "error", fmt.Errorf("produce: %w", io.ErrUnexpectedEOF))
				l.Warn("cannot join group, trying again", "error", io.EOF)
				l.Warn("cannot reach Kafka, trying again", "error", io.EOF)
				warned += 4
			}
			time.Sleep(100 * time.Millisecond)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 6 || strings.Contains(lines[0], "not_shown") {
			t.Fatalf("got %d lines, want one at once and five more:\n%s", len(lines), out.String())
		}
		shown := 6
		for _, line := range lines[1:] {
			_, n, _ := strings.Cut(line, "not_shown=")
			hidden := 0
			if _, err := fmt.Sscan(n, &hidden); err != nil {
				t.Fatalf("got %q, want the number of lines that are not shown", line)
			}
			shown += hidden
		}
		out.Reset()
		for p := range 8 {
			log.Info("can read again", "partition", p, "failed", 3000)
		}
		if _, n, _ := strings.Cut(out.String(), "not_shown="); strings.Count(out.String(), "\n") != 1 || n != fmt.Sprintln(warned-shown) {
			t.Errorf("there again: got %q, want one line, and %d warnings not shown", out.String(), warned-shown)
		}
		out.Reset()
		log.Warn("cannot read, trying again", "error", io.EOF)
		if out.Len() == 0 {
			t.Error("away again: got nothing, want it shown at once")
		}
	})
}

// TestWhatAPersonMustMendIsNotHidden behind a Kafka that is away: a missing topic or right is a class of its own, by topic.
func TestWhatAPersonMustMendIsNotHidden(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(New(slog.NewTextHandler(&out, nil)))
	for range 3 {
		log.Warn("cannot read, trying again", "error", io.EOF)
		log.With("topic", "a").Warn("cannot read, trying again", "error", kafkaio.ErrNoTopic)
		log.Warn("cannot read, trying again", "topic", "b", "error", kafkaio.ErrNoTopic)
		log.Warn("cannot append, trying again", "topic", "b", "error", kafkaio.ErrUnauthorized)
	}
	if n := strings.Count(out.String(), "\n"); n != 4 {
		t.Errorf("got %d lines, want 4:\n%s", n, out.String())
	}
}

// TestAllElseIsLogged as often as it comes.
func TestAllElseIsLogged(t *testing.T) {
	var out bytes.Buffer
	h := New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))
	log := slog.New(h).WithGroup("g")
	for range 5 {
		log.Info("closed", "error", io.EOF)
		log.Warn("topic has a wrong setting", "error", io.EOF)
		log.Error("cannot save positions, trying again", "error", errors.New("disk full"))
		log.Debug("not enabled, trying again")
	}
	if n := strings.Count(out.String(), "\n"); n != 15 || !strings.Contains(out.String(), "g.error=EOF") {
		t.Errorf("got %d lines, want 15:\n%s", n, out.String())
	}
}

// TestHandlersOfAllPartitionsAgree, at once. For the race detector.
func TestHandlersOfAllPartitionsAgree(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(New(slog.NewTextHandler(&out, nil)))
	var all sync.WaitGroup
	for p := range 8 {
		all.Go(func() {
			for range 100 {
				log.With("partition", p).Warn("cannot read, trying again", "error", io.EOF)
			}
		})
	}
	all.Wait()
	if lines := slices.Collect(strings.Lines(out.String())); len(lines) != 1 {
		t.Errorf("got %d lines, want one", len(lines))
	}
}

// TestTimesMayJump, as a clock does that somebody corrects: a clock that is set back hides warnings for no longer than it was set back, and a minute; one that is set
// on shows the next at once.
// What is shown says how many were not.
func TestTimesMayJump(t *testing.T) {
	var out bytes.Buffer
	h := New(slog.NewTextHandler(&out, nil))
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		at   time.Duration
		want string // empty: nothing is shown
	}{
		{0, "error=EOF"}, {time.Second, ""}, {-time.Hour, ""}, {59 * time.Second, ""}, {time.Minute, "not_shown=3"},
		{24 * time.Hour, "error=EOF"}, {24*time.Hour + time.Second, ""}, {24*time.Hour + Every, "not_shown=1"},
	} {
		out.Reset()
		r := slog.NewRecord(noon.Add(step.at), slog.LevelWarn, "cannot read, trying again", 0)
		r.AddAttrs(slog.Any("error", io.EOF))
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if (step.want == "") != (out.Len() == 0) || !strings.Contains(out.String(), step.want) {
			t.Errorf("after %v: got %q, want %q", step.at, out.String(), step.want)
		}
	}
}
