package schemas

import "testing"

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
