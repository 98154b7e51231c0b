package simulate

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// TestEverybodyDoubles: a thousand callers ask for 0.9 of the capacity together, and from one second to the next for twice as much.
func TestEverybodyDoubles(t *testing.T) {
	testenv.Long(t)
	for seed := range fairSeeds() {
		callers, share := zipfCrowd(1000, 1)
		all := &crowd{callers: callers, share: share, most: 18_000, rate: func(at time.Duration) float64 {
			if at < 20*time.Second || at >= 40*time.Second {
				return 9000
			}
			return 18_000
		}}
		run := runFair(t, fairConfig(t, fairPool, 5*time.Millisecond, seed), 45, all)
		// who asks for less than its fair share is innocent: here that is whoever is quiet enough on average
		level, innocent := fairLevel(run, 22, 40), map[string]bool{}
		for c := range run.asked {
			innocent[c] = float64(sum(run.asked, 22, 40, only(c)))/18 < 0.8*level
		}
		refused := func(c string) bool { return innocent[c] }
		blocked := 100 - 100*float64(sum(run.got, 22, 40, refused))/float64(sum(run.asked, 22, 40, refused))
		used := float64(sum(run.got, 22, 40, anyone)) / 180_000
		t.Logf("seed %d: admitted/C %.3f, level %.0f, innocents blocked %.4f %%, %.1f decisions/s", seed, used, level, blocked, float64(run.decisions)/25)
		t.Log(run.beside(22, 40))
		between(t, "admitted/C", used, 0.98, 1.03)
		between(t, "innocents blocked %", blocked, 0, 0.2)
		between(t, "decisions/s", float64(run.decisions)/25, 0, 150)
	}
}

func only(c string) func(string) bool { return func(o string) bool { return o == c } }

// fairLevel returns the level that divides what callers asked for on average exactly.
func fairLevel(run *fairRun, from, to int) float64 {
	low, high := 0.0, 10_000.0
	for range 60 {
		level, total := (low+high)/2, 0.0
		for c := range run.asked {
			total += min(float64(sum(run.asked, from, to, only(c)))/float64(to-from), level)
		}
		if total > 10_000 {
			high = level
		} else {
			low = level
		}
	}
	return low
}

// beside says what the same requests come to with no limit, with random shedding, and with the best static limit of each caller in a second: the
// one that admits the capacity in some seconds. That limit refuses requests in the twenty seconds before, too, while there is room for all.
func (f *fairRun) beside(from, to int) string {
	asked, level := float64(sum(f.asked, from, to, anyone))/float64(to-from)/10_000, int(fairLevel(f, from, to))
	needless := 0
	for _, by := range f.asked {
		for _, n := range by[:20] {
			needless += max(0, n-level)
		}
	}
	return fmt.Sprintf("beside: no limit admits %.2f C; random shedding refuses %.1f %% of everybody; the best static limit is %d, and refuses %.1f %% while there is room for all",
		asked, 100-100/asked, level, 100*float64(needless)/float64(sum(f.asked, 0, 20, anyone)))
}

// TestBurstsDoNotHurtOthers: three callers of C each come for two seconds, and stay away for two.
func TestBurstsDoNotHurtOthers(t *testing.T) {
	testenv.Long(t)
	for seed := range fairSeeds() {
		crowds, noisy := noisyCrowds(40*time.Second, 10_000, 10_000, 10_000)
		for _, c := range crowds[1:] {
			rate := c.rate
			c.rate = func(at time.Duration) float64 {
				if at/(2*time.Second)%2 == 1 {
					return 0
				}
				return rate(at)
			}
		}
		run := runFair(t, fairConfig(t, fairPool, 5*time.Millisecond, seed), 45, crowds...)
		peak := 0
		for s := 22; s < 40; s++ {
			peak = max(peak, sum(run.got, s, s+1, anyone))
		}
		t.Logf("seed %d: quiet blocked %.4f %%, peak second %.2f C, Jain %.4f", seed, run.blocked(0, 45), float64(peak)/10_000, run.jain(22, 40, noisy...))
		between(t, "quiet blocked %", run.blocked(0, 45), 0, 0)
		between(t, "peak second", float64(peak)/10_000, 0, 1.5)
	}
}

// TestUnderTheCapacityNobodyWaits: callers ask for 0.95 of the capacity, evenly or not. No level is made.
func TestUnderTheCapacityNobodyWaits(t *testing.T) {
	seconds := 40
	if !testenv.IsLong() {
		seconds = 10
	}
	for name, heavy := range map[string][]float64{"even": nil, "with callers of 0.4 and 0.2 C": {4000, 2000}} {
		t.Run(name, func(t *testing.T) {
			for seed := range fairSeeds() {
				callers, share := zipfCrowd(1000, 0)
				quiet, crowds := 9500.0, []*crowd{}
				for i, r := range heavy {
					rate, most := constant(r)
					crowds = append(crowds, &crowd{callers: []string{fmt.Sprint("heavy-", i)}, rate: rate, most: most})
					quiet -= r
				}
				rate, most := constant(quiet)
				crowds = append(crowds, &crowd{callers: callers, share: share, rate: rate, most: most})
				run := runFair(t, fairConfig(t, fairPool, 5*time.Millisecond, seed), seconds, crowds...)
				if run.decisions != 0 || len(run.levels) != 0 || len(run.refused) != 0 {
					t.Errorf("seed %d: got %d decisions, %d levels and %d callers refused, want none", seed, run.decisions, len(run.levels), len(run.refused))
				}
			}
		})
	}
}

// TestWeightsDivideTheCapacity: two callers ask for more than all, and one has four times the weight of the other.
func TestWeightsDivideTheCapacity(t *testing.T) {
	seconds := 30
	if !testenv.IsLong() {
		seconds = 20
	}
	for seed := range fairSeeds() {
		rate, most := constant(15_000)
		run := runFair(t, fairConfig(t, fairPool+", weights: {big: 4}", 5*time.Millisecond, seed), seconds,
			&crowd{callers: []string{"big"}, rate: rate, most: most}, &crowd{callers: []string{"small"}, rate: rate, most: most})
		ratio := float64(sum(run.got, 5, seconds, only("big"))) / float64(sum(run.got, 5, seconds, only("small")))
		used := float64(sum(run.got, 5, seconds, anyone)) / float64(seconds-5) / 10_000
		t.Logf("seed %d: %.3f to 1, admitted/C %.3f", seed, ratio, used)
		between(t, "big to small", ratio, 3.92, 4.08)
		between(t, "admitted/C", used, 0.98, 1.02)
	}
}

// TestPartitionsDoNotChangeTheLevel: the same requests in 1, 4 or 16 partitions.
func TestPartitionsDoNotChangeTheLevel(t *testing.T) {
	mean := func(partitions int) float64 {
		crowds, _ := noisyCrowds(28*time.Second, 1800, 1800, 1800)
		c := fairConfig(t, fairPool, 5*time.Millisecond, 1)
		c.Partitions = partitions
		total, n := 0.0, 0
		for _, l := range runFair(t, c, 28, crowds...).levels {
			if at := l.At - c.Start; at >= 23*int64(time.Second) {
				total, n = total+float64(l.Level.Level), n+1
			}
		}
		if n < 16 {
			t.Fatalf("%d partitions: got %d levels in five seconds, want about 20", partitions, n)
		}
		return total / float64(n) / pool.Unit
	}
	want := mean(1)
	for _, p := range []int{4, 16} {
		got := mean(p)
		t.Logf("%d partitions: level %.1f; 1 partition: %.1f", p, got, want)
		between(t, fmt.Sprint(p, " partitions"), got/want, 0.98, 1.02)
	}
}

// TestOwnersDie: three callers of 0.18 C, each in a partition of its own, ask for more than is left. The owner of one of them dies for seven
// seconds: once an ordinary one, and once the pool's home.
func TestOwnersDie(t *testing.T) {
	testenv.Long(t)
	const partitions = 4
	key := schemas.DefaultPartitionKey()
	home := fold.PoolHome(key, "pool", partitions)
	for name, dead := range map[string]int{"an owner": (home + 1) % partitions, "the home": home} {
		t.Run(name, func(t *testing.T) {
			for seed := range fairSeeds() {
				crowds, noisy := noisyCrowds(60*time.Second, 1800, 1800, 1800)
				for i := range noisy {
					for n := 0; schemas.Partition(key.Hash("tenant", noisy[i]), partitions) != (dead+i)%partitions; n++ {
						noisy[i] = fmt.Sprint("noisy-", i, "-", n)
					}
				}
				c := fairConfig(t, fairPool, 5*time.Millisecond, seed)
				c.Kills = []Kill{{Stop{30 * time.Second, 7 * time.Second}, dead}}
				run := runFair(t, c, 65, crowds...)
				rate := func(id string, from, to int) float64 {
					return float64(sum(run.got, from, to, only(id))) / float64(to-from)
				}
				used, after := float64(sum(run.got, 31, 37, anyone))/60_000, float64(sum(run.got, 43, 60, anyone))/170_000
				t.Logf("seed %d: quiet blocked %.4f %%, admitted/C %.3f meanwhile, %.3f after", seed, run.blocked(0, 65), used, after)
				for i, id := range noisy {
					t.Logf("noisy %d: got %.0f a second before, %.0f meanwhile, %.0f after; each second from 36 on %v", i,
						rate(id, 24, 30), rate(id, 31, 37), rate(id, 43, 60), run.got[id][36:46])
					if i > 0 {
						between(t, "another partition, meanwhile to before", rate(id, 31, 37)/rate(id, 24, 30), 0.9, 1.1)
					}
				}
				between(t, "quiet blocked %", run.blocked(0, 65), 0, 0)
				between(t, "admitted/C meanwhile", used, 0.9, 1.12)
				between(t, "admitted/C after", after, 0.98, 1.02)
				if sum(run.got, 38, 43, only(noisy[0])) == 0 {
					t.Errorf("got none of the dead owner's caller in the five windows after, want it open again in them")
				}
			}
		})
	}
}
