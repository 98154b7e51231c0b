package fold

import (
	"hash/maphash"

	"github.com/509da70d/floodgate/analyzer/index"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/window"
)

// row is what is kept of one rule and caller: 128 bytes, two lines of cache.
type row struct {
	since   int64 // log time up to which its count may lack weight (see loss.go); never if it is exact
	id      string
	home    uint32   // the lower half of its hash; see rowHash
	rule    int16    // index into the fold's rules; -1 while the row is free
	dirty   bool     // on the list of the next checkpoint, also while the row is free
	beside  beside   // what is kept of it outside the table
	words   [4]int64 // where most states live
	state   window.State
	closure policy.Closure
	stored  uint64 // rows.Sum of the row as last committed; 0 if it never was
}

// beside says what is kept of a row outside the table (see asides), and two things more.
type beside uint8

const (
	hasEarly       beside = 1 << iota // Fold.earlyWeights
	tracked                           // perhaps has a tracker of Fold.predict
	closedByDemand                    // of its latest close
	hasRecords                        // Fold.records, of its caller
	hasSteps                          // Fold.steps
	hasEnd                            // Fold.ends: its closure is not reported as ended yet
)

// flag sets or clears a flag.
func (r *row) flag(b beside, is bool) {
	if r.beside &^= b; is {
		r.beside |= b
	}
}

// set makes the state a copy of s. States of four integers need no memory beside the row.
func (r *row) set(s window.State) { r.state = append(window.State(r.words[:0]), s...) }

// table finds the row of a rule and caller: an index by rowHash, and the full id compared on a match. Rows never move, so that their
// indexes stay good. The zero value is empty. One goroutine may use a table.
type table struct {
	index.Slab[row]

	index index.Index
	used  int // rows in use
}

// idHasher hashes the ids of callers by a key that is random in each process, so that nobody can choose ids that collide.
// Nothing that decides a count or an order, or that leaves the process, may depend on it. The partition key is no
// substitute: it is public by default, and every server knows it.
type idHasher struct{ seed maphash.Seed }

func newIDHasher() idHasher { return idHasher{maphash.MakeSeed()} }

func (h idHasher) hash(id string) uint64 { return maphash.String(h.seed, id) }

// rowHash mixes the rule into the hash of a caller's id; one caller has a row for each rule that counts it.
func rowHash(id uint64, rule int32) uint64 {
	h := (id ^ uint64(rule)*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93 // rule ≥ 0
	return h ^ h>>32
}

// row returns the row at index i, which is in use.
func (t *table) row(i uint32) *row { return t.At(i) }

func (t *table) home(i uint32) uint32 { return t.row(i).home }

// find returns the index of the row of rule and id, or false.
func (t *table) find(hash uint64, rule int32, id string) (uint32, bool) {
	p := t.index.Probe(hash)
	i, ok := p.Next()
	for ; ok; i, ok = p.Next() {
		if r := t.row(i); r.home == index.Home(hash) && int32(r.rule) == rule && r.id == id {
			break
		}
	}
	return i, ok
}

// insert adds a row that find did not find, and returns its index.
func (t *table) insert(hash uint64, rule int32, id string) uint32 {
	i := t.Take()
	r := t.row(i)
	*r = row{since: never, home: index.Home(hash), rule: int16(rule), id: id, dirty: r.dirty} // rules.MaxRules
	r.set(nil)
	t.used++
	t.index.Add(hash, i, t.home)
	return i
}

// remove frees the row at index i. If it is on the list of the next checkpoint, it stays there, once.
func (t *table) remove(i uint32) {
	t.index.Remove(i, t.home)
	*t.row(i) = row{rule: -1, dirty: t.row(i).dirty}
	t.Give(i)
	t.used--
}

// each calls f with every row in use, in no meaningful order, until it returns false. f may remove the row it is given.
func (t *table) each(f func(i uint32, r *row) bool) {
	for i := range t.Made() {
		if r := t.row(i); r.rule >= 0 && !f(i, r) {
			return
		}
	}
}

// asides is what is kept beside rows that are being moved to another table.
type asides struct {
	earlyWeights map[*row]*earlyWeight
	steps        map[*row][]policy.Closure
	trackers     *predict.Moved
}

// asides takes away what is kept beside the rows.
func (f *Fold) asides() asides {
	a := asides{f.earlyWeights, f.steps, f.predict.Move()}
	f.earlyWeights, f.steps = nil, nil
	return a
}

// adopt gives the row at index i what is kept beside the one that it was at another index; its tracker only if it is tracked on.
func (f *Fold) adopt(i, before uint32, from *row, a *asides, tracksOn bool) {
	to := f.table.row(i)
	to.flag(closedByDemand, from.beside&closedByDemand != 0)
	if d := a.earlyWeights[from]; d != nil {
		f.putEarly(to, d)
	}
	f.putSteps(to, a.steps[from])
	to.flag(tracked, tracksOn && f.predict.Adopt(i, a.trackers, before))
}

// takeRow makes a row what a value says.
func (f *Fold) takeRow(r *row, v *StoredRow) {
	r.set(v.State)
	r.closure, r.since = v.Closure, v.since
	f.forgetEarly(r)
	r.flag(closedByDemand, v.byDemand)
	if v.early != nil {
		f.putEarly(r, v.early)
	}
	f.putSteps(r, v.steps)
}

// stepsOf returns the closes in a row before a row's closure, as policy.Steps made them.
func (f *Fold) stepsOf(r *row) []policy.Closure {
	if r.beside&hasSteps == 0 {
		return nil
	}
	return f.steps[r]
}

// putSteps replaces the closes in a row before a row's closure.
func (f *Fold) putSteps(r *row, steps []policy.Closure) {
	switch {
	case len(steps) > 0:
		if f.steps == nil {
			f.steps = make(map[*row][]policy.Closure)
		}
		r.beside |= hasSteps
		f.steps[r] = steps
	case r.beside&hasSteps != 0:
		r.beside &^= hasSteps
		delete(f.steps, r)
	}
}
