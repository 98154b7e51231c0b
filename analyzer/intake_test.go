package analyzer

import (
	"testing"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestWhatIsMissingInABatchIsCountedByItsReason: records that the log no longer holds are lost, those that nobody can read
// are refused and shown, and a transaction's marker is nobody's record.
func TestWhatIsMissingInABatchIsCountedByItsReason(t *testing.T) {
	o := NewOwner(newTestLog(), OwnerConfig{Requests: "requests", Decisions: "decisions", Rejects: "rejects", Dir: t.TempDir() + "/0", Rules: mustRules(t, threeAMinute)})
	if err := o.ledger.open(); err != nil {
		t.Fatal(err)
	}
	defer o.ledger.closeStore()
	b := kafkaio.Batch{Next: 40, LogStart: -1, Skipped: []kafkaio.Skip{
		{From: 0, To: 9, Reason: kafkaio.SkipLost},
		{From: 10, To: 10, Reason: kafkaio.SkipControl},
		{From: 11, To: 14, Reason: kafkaio.SkipCorrupt, Err: &kafkaio.CorruptError{From: 11, To: 1 << 60}},
		{From: 15, To: 39, Reason: kafkaio.SkipGap},
	}}
	if err := o.intake.take(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	stats := o.ledger.fold.Stats()
	if stats.Lost != 10 || stats.Rejected["corrupt"] != 4 || stats.Rejected["gap"] != 25 || stats.Rejected["control"] != 0 {
		t.Errorf("got %d lost and %v refused, want 10 lost, 4 corrupt and 25 in the gap", stats.Lost, stats.Rejected)
	}
	if got := o.Next(); got != 40 {
		t.Errorf("next offset: got %d, want 40, behind all of it", got)
	}
	if n := len(o.rejects.queue); n != 2 {
		t.Fatalf("shown: got %d, want the corrupt batch and the gap", n)
	}
	for _, want := range []struct {
		offset int64
		reason string
	}{{11, "corrupt"}, {15, "gap"}} {
		if r := <-o.rejects.queue; r.Offset != want.offset || r.Reason != want.reason {
			t.Errorf("shown: got offset %d, %q, want %d, %q", r.Offset, r.Reason, want.offset, want.reason)
		}
	}
	if n := len(o.rejects.queue); n != 0 {
		t.Errorf("shown: got %d more, want none", n)
	}
}
