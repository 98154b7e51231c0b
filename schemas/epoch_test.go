package schemas

import (
	"errors"
	"math"
	"testing"
	"time"
)

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
