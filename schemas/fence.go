package schemas

import (
	"errors"
	"fmt"
	"time"
)

// Fence decides which owner's records count in one partition of the decisions topic. It holds the highest epoch that a claim or
// heartbeat announced, and the highest sequence number seen under it. It refuses everything older: an owner that was
// replaced while it was paused changes nothing when it continues. The zero value accepts the first claim or heartbeat, and
// refuses decisions until then.
//
// A reader calls CheckEpoch first, and passes no epoch to Claim or Heartbeat that it refuses.
//
// One goroutine may use a Fence.
type Fence struct {
	Epoch uint64
	Seq   uint64
}

// Claim reports whether a claim takes the partition over. Of equal epochs the first in the log wins.
func (f *Fence) Claim(epoch uint64) bool {
	if epoch <= f.Epoch {
		return false
	}
	f.Epoch, f.Seq = epoch, 0
	return true
}

// Heartbeat reports whether a heartbeat is from the owner and new. A heartbeat of a higher epoch raises the fence, for a
// reader that starts behind the claim. No owner writes sequence number 0, so such a heartbeat does not raise the fence.
func (f *Fence) Heartbeat(epoch, seq uint64) bool {
	if epoch > f.Epoch && seq > 0 {
		f.Epoch, f.Seq = epoch, 0
	}
	return f.Decision(epoch, seq)
}

// Decision reports whether a decision is from the owner and newer than the last accepted record.
func (f *Fence) Decision(epoch, seq uint64) bool {
	if epoch == 0 || epoch != f.Epoch || seq <= f.Seq {
		return false
	}
	f.Seq = seq
	return true
}

// Bounds on the epochs that readers believe.
const (
	// MaxEpochLead is how far an epoch, read as Unix milliseconds, may be ahead of the time of the record that announces
	// it. It is a hundred years: wide enough for every wrong clock, and far from the end of the numbers.
	MaxEpochLead = 36525 * 24 * time.Hour
	// MaxRecordLead is how far the time of a record may be ahead of the reader's clock. What is beyond it counts as this
	// far. Brokers refuse records that are more than message.timestamp.after.max.ms ahead, an hour by default.
	MaxRecordLead = 2 * time.Hour
)

// ErrEpoch says that a claim or heartbeat announces an epoch that no owner takes.
var ErrEpoch = errors.New("epoch too far ahead")

// CheckEpoch returns nil if a claim or heartbeat may announce the epoch, and an error that is ErrEpoch otherwise. recordTime is
// the time of its record in the log, and now is the reader's clock. Both are Unix nanoseconds.
//
// Owners take epochs that rise from the Unix milliseconds of their clock. Without a bound, a process that may write to the
// topic of decisions could announce the highest epoch that exists, and no owner could take a higher one. This bound rises with
// time: after every epoch that readers believe, an owner can take a higher one, at the time that EpochTime returns. Where
// brokers refuse records from the far future, the bound depends on the record and not on when it is read, so that all readers
// agree.
func CheckEpoch(epoch uint64, recordTime, now int64) error {
	last := (min(recordTime, now+int64(MaxRecordLead)) + int64(MaxEpochLead)) / int64(time.Millisecond)
	if last >= 0 && epoch <= uint64(last) {
		return nil
	}
	return fmt.Errorf("%w: got %d, want %d or less", ErrEpoch, epoch, max(last, 0))
}

// EpochTime returns the time, in Unix nanoseconds, that an owner gives to the records of an epoch. That is now, or the first
// time at which readers believe the epoch. For an epoch that readers believe at no time, it is the highest int64.
func EpochTime(epoch uint64, now int64) int64 {
	const lastMillis = uint64(1<<63-1) / uint64(time.Millisecond)
	if epoch > lastMillis {
		return 1<<63 - 1
	}
	return max(now, int64(epoch)*int64(time.Millisecond)-int64(MaxEpochLead))
}
