package schemas

// Fence is one reader's view of who may write a partition of the decisions topic. It holds the highest epoch that a
// claim or heartbeat announced, and the highest sequence number seen under it; anything older is refused, so that an
// owner that was paused and woke up late changes nothing. The zero value accepts the first claim or heartbeat and
// refuses decisions until then: a reader applies nothing before it has the epoch.
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

// Heartbeat reports whether a heartbeat is the owner's and new. A heartbeat of a higher epoch raises it, for a reader
// that starts behind the claim.
func (f *Fence) Heartbeat(epoch, seq uint64) bool {
	if epoch > f.Epoch {
		f.Epoch, f.Seq = epoch, 0
	}
	return f.Decision(epoch, seq)
}

// Decision reports whether a decision is the owner's and newer than the last record accepted.
func (f *Fence) Decision(epoch, seq uint64) bool {
	if epoch == 0 || epoch != f.Epoch || seq <= f.Seq {
		return false
	}
	f.Seq = seq
	return true
}
