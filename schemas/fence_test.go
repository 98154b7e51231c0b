package schemas

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestFence(t *testing.T) {
	type step struct {
		what       string // claim, heartbeat, decision
		epoch, seq uint64
		want       bool
		why        string
	}
	stories := map[string][]step{
		"a reader applies nothing before it has the epoch": {
			{"decision", 5, 1, false, "no epoch yet"},
			{"claim", 5, 0, true, "first claim"},
			{"decision", 5, 1, true, "the owner's"},
		},
		"a reader that starts behind the claim learns the epoch from a heartbeat": {
			{"heartbeat", 5, 9, true, "raises the epoch"},
			{"decision", 5, 9, false, "the heartbeat had this seq"},
			{"decision", 5, 10, true, "next"},
		},
		"a zombie is fenced by the next claim": {
			{"claim", 5, 0, true, "owner A"},
			{"decision", 5, 1, true, "A decides"},
			{"claim", 6, 0, true, "owner B"},
			{"decision", 5, 2, false, "A woke up"},
			{"heartbeat", 5, 3, false, "A still beats"},
			{"decision", 6, 1, true, "B decides"},
		},
		"of equal epochs the first in the log wins": {
			{"claim", 5, 0, true, "first"},
			{"claim", 5, 0, false, "loser claims again with a higher epoch"},
		},
		"a decision never raises the epoch": {
			{"claim", 5, 0, true, "owner"},
			{"decision", 7, 1, false, "nobody claimed 7"},
			{"decision", 5, 1, true, "5 still rules"},
		},
		"a produce that was retried changes nothing the second time": {
			{"claim", 5, 0, true, "owner"},
			{"decision", 5, 1, true, "once"},
			{"decision", 5, 1, false, "twice"},
			{"decision", 5, 3, true, "a lost one leaves a gap"},
			{"decision", 5, 2, false, "and may not come late"},
		},
		"sequence number zero is nobody's": {
			{"claim", 5, 0, true, "owner"},
			{"heartbeat", 6, 0, false, "no owner begins with 0"},
			{"decision", 5, 1, true, "5 still rules"},
		},
		"epoch zero is nobody's": {
			{"claim", 0, 0, false, "zero"},
			{"heartbeat", 0, 1, false, "zero"},
			{"decision", 0, 1, false, "zero"},
		},
	}
	for name, steps := range stories {
		t.Run(name, func(t *testing.T) {
			var f Fence
			for i, s := range steps {
				var got bool
				switch s.what {
				case "claim":
					got = f.Claim(s.epoch)
				case "heartbeat":
					got = f.Heartbeat(s.epoch, s.seq)
				case "decision":
					got = f.Decision(s.epoch, s.seq)
				}
				if got != s.want {
					t.Errorf("step %d, %s(%d, %d), %s: got %v, want %v", i, s.what, s.epoch, s.seq, s.why, got, s.want)
				}
			}
		})
	}
}

// readersNow is 2026-11-22, in Unix nanoseconds.
const readersNow = int64(1_795_305_600) * int64(time.Second)

func millis(t int64) uint64 { return uint64(t / int64(time.Millisecond)) }

func TestCheckEpoch(t *testing.T) {
	const hour = int64(time.Hour)
	lead := int64(MaxEpochLead)
	tests := []struct {
		name       string
		epoch      uint64
		recordTime int64
		ok         bool
	}{
		{"an owner's own", millis(readersNow), readersNow, true},
		{"the one after", millis(readersNow) + 1, readersNow, true},
		{"of a clock that is ten years ahead", millis(readersNow + lead/10), readersNow, true},
		{"of a record without a time", millis(readersNow), 0, true},
		{"none", 0, readersNow, true},
		{"the last believable", millis(readersNow + lead), readersNow, true},
		{"one more", millis(readersNow+lead) + 1, readersNow, false},
		{"the last there is", math.MaxUint64, readersNow, false},
		{"the last there is, of a record from the end of time", math.MaxUint64, math.MaxInt64, false},
		{"2⁶³", 1 << 63, readersNow, false},
		{"of a record an hour ahead, as brokers allow", millis(readersNow + hour + lead), readersNow + hour, true},
		{"of a record a year ahead", millis(readersNow + int64(MaxRecordLead) + lead), readersNow + 8766*hour, true},
		{"of a record a year ahead, beyond what that gains", millis(readersNow+int64(MaxRecordLead)+lead) + 1, readersNow + 8766*hour, false},
		{"of a record from before everything", 1, math.MinInt64, false},
	}
	for _, test := range tests {
		err := CheckEpoch(test.epoch, test.recordTime, readersNow)
		if (err == nil) != test.ok || err != nil && !errors.Is(err, ErrEpoch) {
			t.Errorf("%s: got %v, want believed: %v", test.name, err, test.ok)
		}
	}
}

// Whatever an attacker announces: where readers believe it, they believe an owner that takes the next epoch a millisecond
// later, with the time that EpochTime gives to its claim.
func FuzzAnEpochThatIsBelievedCanBeFollowed(f *testing.F) {
	f.Add(millis(readersNow), readersNow)
	f.Add(millis(readersNow+int64(MaxEpochLead)), readersNow)
	f.Add(millis(readersNow+int64(MaxEpochLead)+int64(MaxRecordLead)), int64(math.MaxInt64))
	f.Add(uint64(math.MaxUint64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, epoch uint64, recordTime int64) {
		if CheckEpoch(epoch, recordTime, readersNow) != nil {
			return
		}
		later := readersNow + int64(time.Millisecond)
		next := max(epoch+1, millis(later))
		at := EpochTime(next, later)
		if err := CheckEpoch(next, at, later); err != nil {
			t.Fatalf("epoch %d of a record at %d is believed, and then not %d at %d: %v", epoch, recordTime, next, at, err)
		}
		if ahead := at - later; ahead > max(0, recordTime-readersNow) {
			t.Fatalf("epoch %d of a record at %d: the owner has to write %d ns ahead, which the broker may refuse", epoch, recordTime, ahead)
		}
	})
}

func TestEpochTime(t *testing.T) {
	if got := EpochTime(millis(readersNow), readersNow); got != readersNow {
		t.Errorf("an epoch of today: got %d, want now", got)
	}
	far := readersNow + int64(time.Second)
	if got := EpochTime(millis(far+int64(MaxEpochLead)), readersNow); got != far {
		t.Errorf("an epoch one second beyond the bound: got %d, want one second from now, %d", got, far)
	}
	if got := EpochTime(math.MaxUint64, readersNow); got != math.MaxInt64 {
		t.Errorf("the last epoch: got %d, want the end of time", got)
	}
}
