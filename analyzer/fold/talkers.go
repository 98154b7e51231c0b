package fold

import (
	"math"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TalkHalf is the time after which a weight counts half in the tally of busiest callers, so that a rate is of the last minute or so.
const TalkHalf = 20 * time.Second

const (
	maxTalkers  = 1024                  // of each tally
	talkSample  = 32                    // one of so many is taken, on average, and counts for all of them: of entries that were admitted, of requests that were blocked
	talkExact   = 2 * talkSample        // an entry of so many blocked requests is taken as it is
	talkTick    = 10 * time.Millisecond // weights are scaled anew when log time has moved by so much
	talkRebase  = 512                   // half-lives after which weights are written anew: a float64 holds factors of up to 2^1023
	talkHalfLog = float64(TalkHalf) / math.Ln2
)

// talkers is a tally of busiest callers, of bounded size: Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of
// Frequent and Top-k Elements in Data Streams, 2005) over weights that decay (Cormode, Shkapenyuk, Srivastava, Xu: Forward Decay,
// 2009). Of W, the decayed weight of all callers, each caller with more than W/maxTalkers is in it, and no weight is too high by more
// than W/maxTalkers, whatever ids others choose: a newcomer takes the place of the caller with the least weight, and inherits that
// weight as its error.
//
// A weight that came at t is kept as weight × 2^((t − base) / TalkHalf). So nothing has to be touched for it to decay, and the order
// never changes by itself. It decides nothing, is not stored, and is not part of the digest. The zero value is empty. One goroutine
// may use it.
type talkers struct {
	index   index
	callers []talker
	heap    []heavy  // of all callers, the least weight first; apart from them, so that it stays in the cache
	places  []uint32 // by caller: its place in the heap
	base    int64    // log time
	factor  float64  // of weight at the time at
	at      int64    // log time
	begun   int64    // log time of the first weight
}

// talker is one caller. Its kind and id lie in memory of its own, which the next caller in its place uses again.
type talker struct {
	hash uint64
	over float64 // what of its weight may be another's
	name []byte  // kind, then id
	kind int     // length of the kind
}

// heavy is what a caller surely did not exceed, and its number.
type heavy struct {
	weight float64
	number uint32
}

// add adds weight of a caller at log time now. The hash is of kind and id, and nobody else can compute it.
func (t *talkers) add(hash uint64, kind, id string, weight float64, now int64) {
	if t.factor == 0 || now-t.at > int64(talkTick) {
		t.advance(now)
	}
	weight *= t.factor
	if n, ok := t.find(hash, kind, id); ok {
		t.down(t.places[n], heavy{t.heap[t.places[n]].weight + weight, n})
		return
	}
	if len(t.callers) < maxTalkers {
		n := uint32(len(t.callers)) // < maxTalkers
		t.callers = append(t.callers, talker{hash: hash, name: append([]byte(kind), id...), kind: len(kind)})
		t.heap, t.places = append(t.heap, heavy{}), append(t.places, n)
		t.index.add(hash, n, t.home)
		t.up(n, heavy{weight, n})
		return
	}
	least := t.heap[0]
	c := &t.callers[least.number]
	t.index.remove(least.number, t.home)
	c.hash, c.over = hash, least.weight
	c.name, c.kind = append(append(c.name[:0], kind...), id...), len(kind)
	t.index.add(hash, least.number, t.home)
	t.down(0, heavy{least.weight + weight, least.number})
}

// advance moves log time forward.
func (t *talkers) advance(now int64) {
	if t.factor == 0 {
		t.base, t.begun = now, now
	}
	t.at = now
	age := float64(now-t.base) / float64(TalkHalf)
	if age > talkRebase {
		shrink := math.Exp2(-age)
		for i := range t.callers {
			t.heap[i].weight *= shrink
			t.callers[i].over *= shrink
		}
		t.base, age = now, 0
	}
	t.factor = math.Exp2(age)
}

func (t *talkers) home(n uint32) uint32 { return uint32(t.callers[n].hash) } // the lower half

// find returns the number of a caller. It is good until the next add.
func (t *talkers) find(hash uint64, kind, id string) (uint32, bool) {
	if t.index.used == 0 {
		return 0, false
	}
	slots, mask := t.index.slots, t.index.mask()
	tag := uint32(hash >> 32) // the upper half
	for at := uint32(hash) & mask; slots[at].number != 0; at = (at + 1) & mask {
		n := slots[at].number - 1
		if slots[at].tag != tag {
			continue
		}
		if c := &t.callers[n]; c.hash == hash && string(c.name[:c.kind]) == kind && string(c.name[c.kind:]) == id {
			return n, true
		}
	}
	return 0, false
}

// down puts a caller that has got heavier into the heap, at a place or below it.
func (t *talkers) down(place uint32, h heavy) {
	heap := t.heap
	for {
		child := 2*place + 1
		if int(child) >= len(heap) {
			break
		}
		if other := child + 1; int(other) < len(heap) && heap[other].weight < heap[child].weight {
			child = other
		}
		if heap[child].weight >= h.weight {
			break
		}
		t.put(place, heap[child])
		place = child
	}
	t.put(place, h)
}

// up puts a new caller into the heap, at a place or above it.
func (t *talkers) up(place uint32, h heavy) {
	for place > 0 && t.heap[(place-1)/2].weight > h.weight {
		t.put(place, t.heap[(place-1)/2])
		place = (place - 1) / 2
	}
	t.put(place, h)
}

func (t *talkers) put(place uint32, h heavy) {
	t.heap[place] = h
	t.places[h.number] = place
}

// Talker is one of the busiest callers. The true rate lies between Rate − Over and Rate, but for chance where it is of a sample.
type Talker struct {
	Kind, ID string
	Rate     float64 // requests per second, of the last minute or so
	Over     float64
}

// talk is what a fold hears of its callers, whether rules count them or not: the busiest of those that are admitted, and of those that
// are blocked. One goroutine may use it.
type talk struct {
	next        int   // admitted entries until the next that is taken
	nextBlocked int64 // blocked requests until the next that is taken
	on          bool
	random      uint64 // of draws
	admitted    talkers
	blocked     talkers
}

// newTalk returns a tally that has heard nothing, and hears nothing unless it is on. Nobody can know the seed.
func newTalk(on bool, seed uint64) talk {
	if !on {
		return talk{next: math.MaxInt, nextBlocked: math.MaxInt64}
	}
	return talk{next: 1, nextBlocked: 1, on: true, random: seed}
}

// skip draws how far away the next one is that is taken: if it were always as far, it would always be the same one of the callers of
// a request.
func (t *talk) skip() int64 { return 1 + int64(drawn(&t.random)%(2*talkSample-1)) } // 1 to 63, 32 on average

// passed takes one of talkSample arrivals that were admitted, on average, which counts for all of them.
func (t *talk) passed(e *schemas.Entry, hash uint64, now int64) {
	t.next = int(t.skip())
	t.admitted.add(talkHash(e, hash), e.Kind, e.ID, talkSample*float64(e.Count), now)
}

// refused takes an arrival that was blocked, when nextBlocked, from which its count was subtracted, has come down to 0. Gates put many
// requests of a caller that they block into one entry: the more there are, the surer it is taken, and for the better known a count.
func (t *talk) refused(e *schemas.Entry, hash uint64, now int64) {
	if !t.on {
		t.nextBlocked = math.MaxInt64
		return
	}
	weight := float64(e.Count)
	if e.Count >= talkExact {
		t.nextBlocked += int64(e.Count) // those of other entries are drawn as if it were not there
	} else {
		for weight = 0; t.nextBlocked <= 0; weight += talkSample {
			t.nextBlocked += t.skip()
		}
	}
	t.blocked.add(talkHash(e, hash), e.Kind, e.ID, weight, now)
}

// talkHash makes a hash of the caller of its id's. Kinds are few, and are compared.
func talkHash(e *schemas.Entry, hash uint64) uint64 { return rowHash(hash, int32(len(e.Kind))) } // at most schemas.MaxCallerKind

// Talkers returns the busiest callers, admitted and blocked ones, in no particular order: their rates are as of now in Unix
// nanoseconds, or of log time if that is later. Kinds that no rule counts are among them. Without Options.Talkers there are none.
//
// A sample of them is counted: the rate of a caller that sends r a second is off by about √(16 r / 29), which is 4 % of 350 a second.
// Blocked requests that came in entries of talkExact or more are counted exactly. At most maxTalkers are known of each.
func (f *Fold) Talkers(now int64) (admitted, blocked []Talker) {
	return f.talk.admitted.list(now), f.talk.blocked.list(now)
}

// list returns all callers at log time now, in no particular order, as rates. A tally that began a moment ago knows the rate since then.
func (t *talkers) list(now int64) []Talker {
	if len(t.callers) == 0 {
		return nil
	}
	now = max(now, t.at)
	age := float64(now-t.base) / float64(TalkHalf)
	seen := -math.Expm1(-float64(max(now-t.begun, int64(time.Second))) / talkHalfLog) // the share of a steady stream that has come by now
	perSecond := math.Exp2(-age) / (talkHalfLog / float64(time.Second)) / seen
	size := 0
	for i := range t.callers {
		size += len(t.callers[i].name)
	}
	names := make([]byte, 0, size)
	for i := range t.callers {
		names = append(names, t.callers[i].name...)
	}
	text, list := string(names), make([]Talker, len(t.callers))
	for i := range t.callers {
		c := &t.callers[i]
		name := text[:len(c.name)]
		text = text[len(c.name):]
		list[i] = Talker{Kind: name[:c.kind], ID: name[c.kind:], Rate: t.heap[t.places[i]].weight * perSecond, Over: c.over * perSecond}
	}
	return list
}
