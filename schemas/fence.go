package schemas

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
