package fold

import (
	"hash/maphash"

	"github.com/509da70d/floodgate/analyzer/index"
)

// rowIndex finds the row of a rule and caller by rowHash, and compares the full id on a match. Rows never move, so an index stays valid
// while its row is in use. The zero value is empty. One goroutine may use a rowIndex.
type rowIndex struct {
	index.Slab[row]

	index index.Index
	used  int // rows in use
}

// idHasher hashes the ids of callers with a key that is random in each process, so that nobody can choose ids that collide. No count, no
// order and nothing that leaves the process may depend on such a hash. The partition key cannot be used instead: it is public by default,
// and every server knows it.
type idHasher struct{ seed maphash.Seed }

func newIDHasher() idHasher { return idHasher{maphash.MakeSeed()} }

func (h idHasher) hash(id string) uint64 { return maphash.String(h.seed, id) }

// rowHash mixes the rule into the hash of a caller's id, because one caller has a row for each rule that counts it.
func rowHash(id uint64, rule int32) uint64 {
	h := (id ^ uint64(rule)*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93 // rule ≥ 0
	return h ^ h>>32
}

// row returns the row at index i, which is in use.
func (t *rowIndex) row(i uint32) *row { return t.At(i) }

func (t *rowIndex) home(i uint32) uint32 { return t.row(i).home }

// find returns the index of the row of rule and id, or false if there is none.
func (t *rowIndex) find(hash uint64, rule int32, id string) (uint32, bool) {
	p := t.index.Probe(hash)
	i, ok := p.Next()
	for ; ok; i, ok = p.Next() {
		if r := t.row(i); r.home == index.Home(hash) && int32(r.rule) == rule && r.id == id {
			break
		}
	}
	return i, ok
}

// add adds a row that find did not find, and returns its index.
func (t *rowIndex) add(hash uint64, rule int32, id string) uint32 {
	i := t.Take()
	r := t.row(i)
	*r = row{since: never, home: index.Home(hash), rule: int16(rule), id: id, dirty: r.dirty} // rules.MaxRules
	r.set(nil)
	t.used++
	t.index.Add(hash, i, t.home)
	return i
}

// free frees the row at index i. If it is on the list of the next checkpoint, it stays there, once.
func (t *rowIndex) free(i uint32) {
	t.index.Remove(i, t.home)
	*t.row(i) = row{rule: -1, dirty: t.row(i).dirty}
	t.Give(i)
	t.used--
}

// each calls f with every row in use, in no particular order, until f returns false. f may remove the row that it is given.
func (t *rowIndex) each(f func(i uint32, r *row) bool) {
	for i := range t.Made() {
		if r := t.row(i); r.rule >= 0 && !f(i, r) {
			return
		}
	}
}
