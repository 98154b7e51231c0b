package fold

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/509da70d/floodgate/store/rows"
)

// refusedBlock is how many offsets one block of refusals stands for.
const refusedBlock = 1024

// maxRefusedBlocks bounds the list: 12 MB of memory, and 67 million offsets of the log in which a message was refused now
// and then. Beyond it the oldest are forgotten, and the list says since which offset it is complete.
const maxRefusedBlocks = 1 << 16

// Refusals is the list of messages that a fold ignores because an owner refused them for their time. The fold judges
// nothing: what it folds is a function of the log and of this list. The list is part of the store and of snapshots, in
// blocks of offsets; the zero value is empty. One goroutine may use it.
//
// Offsets may be in the list before they are folded. Prune drops those that the log no longer holds.
type Refusals struct {
	blocks  map[int64]*refusedOffsets // by offset / refusedBlock
	changed []int64                   // blocks that are dirty
	removed removals
	pruned  int64 // blocks before this one were dropped

	// head says from which offset on the list is complete; nil where times were never judged.
	head *refusedHead
}

// refusedOffsets is one block.
type refusedOffsets struct {
	bits   [refusedBlock / 64]uint64
	epoch  uint64 // of the owner that refused the newest of them
	stored uint64 // rows.Sum of the row as last committed; 0 if it never was
	dirty  bool
}

// refusedHead is the row that says what the list is worth.
type refusedHead struct {
	since int64 // every message from this offset on that is not on the list was folded

	// Before this offset it was once not known what another owner had refused, because the topic of state was lost: it was
	// judged anew, perhaps otherwise. 0 is nowhere.
	doubt int64

	stored uint64 // as in refusedOffsets
	dirty  bool
}

// Has reports whether the message at an offset is to be passed over.
func (r *Refusals) Has(offset int64) bool {
	if len(r.blocks) == 0 {
		return false
	}
	b := r.blocks[offset/refusedBlock]
	return b != nil && b.bits[offset%refusedBlock/64]&(1<<(offset%64)) != 0
}

// Add puts an offset on the list. Offsets are not negative.
func (r *Refusals) Add(offset int64, epoch uint64) {
	n := offset / refusedBlock
	if n < r.pruned {
		return
	}
	b := r.block(n)
	b.bits[offset%refusedBlock/64] |= 1 << (offset % 64)
	b.epoch = max(b.epoch, epoch)
	r.touch(n, b)
	r.bound()
}

// Judged returns from which offset on the list is complete, and before which one it is in doubt (see JudgedSince); ok is
// false where times were never judged.
func (r *Refusals) Judged() (since, doubt int64, ok bool) {
	if r.head == nil {
		return 0, 0, false
	}
	return r.head.since, r.head.doubt, true
}

// Kept returns the first offset that Prune has not dropped.
func (r *Refusals) Kept() int64 { return r.pruned * refusedBlock }

// block returns a block, new if need be.
func (r *Refusals) block(n int64) *refusedOffsets {
	b := r.blocks[n]
	if b == nil {
		if r.blocks == nil {
			r.blocks, r.removed = make(map[int64]*refusedOffsets), make(removals)
		}
		b = &refusedOffsets{stored: r.removed.take(refusedKey(n))}
		r.blocks[n] = b
	}
	return b
}

func (r *Refusals) touch(n int64, b *refusedOffsets) {
	if !b.dirty {
		b.dirty = true
		r.changed = append(r.changed, n)
	}
}

// JudgedSince notes that times are judged, from which offset on the list is complete, and before which one it is in doubt.
func (r *Refusals) JudgedSince(since, doubt int64) {
	if r.head == nil {
		r.head = &refusedHead{since: -1}
	}
	if h := r.head; h.since != since || h.doubt != doubt {
		h.since, h.doubt, h.dirty = since, doubt, true
	}
}

// bound forgets the oldest block where there are too many.
func (r *Refusals) bound() {
	if len(r.blocks) <= maxRefusedBlocks {
		return
	}
	oldest := int64(math.MaxInt64)
	for n := range r.blocks {
		oldest = min(oldest, n)
	}
	r.drop(oldest)
	since, doubt := int64(0), int64(0)
	if r.head != nil {
		since, doubt = r.head.since, r.head.doubt
	}
	end := (oldest + 1) * refusedBlock
	r.JudgedSince(max(since, end), max(doubt, end))
}

// Prune drops what lies before the first offset that the log holds: no refold reaches it.
func (r *Refusals) Prune(start int64) {
	first := start / refusedBlock
	if first <= r.pruned {
		return
	}
	r.pruned = first
	for n := range r.blocks {
		if n < first {
			r.drop(n)
		}
	}
}

// Remove takes an offset off the list.
func (r *Refusals) Remove(offset int64) {
	if !r.Has(offset) {
		return
	}
	n := offset / refusedBlock
	b := r.blocks[n]
	b.bits[offset%refusedBlock/64] &^= 1 << (offset % 64)
	if b.bits == (refusedOffsets{}).bits {
		r.drop(n)
		return
	}
	r.touch(n, b)
}

func (r *Refusals) drop(n int64) {
	r.removed.add(refusedKey(n), r.blocks[n].stored)
	delete(r.blocks, n)
}

// Within returns the offsets of the list from one up to another, in ascending order.
func (r *Refusals) Within(from, to int64) []int64 {
	var offsets []int64
	for n, b := range r.blocks {
		for i := range int64(refusedBlock) {
			if o := n*refusedBlock + i; o >= from && o < to && b.bits[i/64]&(1<<(i%64)) != 0 {
				offsets = append(offsets, o)
			}
		}
	}
	slices.Sort(offsets)
	return offsets
}

// refusedKey is the store key of a block: the prefix and the block's number, big-endian. The prefix alone is the key of
// the row that holds since.
func refusedKey(n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(RefusalRow)}, uint64(n)) // not negative
}

func (b *refusedOffsets) value() []byte {
	v := binary.AppendUvarint([]byte{rowVersion}, b.epoch)
	for _, word := range b.bits {
		v = binary.LittleEndian.AppendUint64(v, word)
	}
	return v
}

func (h *refusedHead) value() []byte {
	return binary.AppendUvarint(binary.AppendUvarint([]byte{rowVersion}, uint64(h.since)), uint64(h.doubt)) // not negative
}

// dirty returns how many changes take has at most.
func (r *Refusals) dirty() int {
	n := len(r.changed) + len(r.removed)
	if r.head != nil && r.head.dirty {
		n++
	}
	return n
}

// take appends what has changed since it was last called, but for what was removed.
func (r *Refusals) take(changes []rows.Change) []rows.Change {
	put := func(key, value []byte, stored *uint64) {
		changes = append(changes, rows.Change{Key: key, Value: value, Old: *stored})
		*stored = rows.Sum(key, value)
	}
	if r.head != nil && r.head.dirty {
		put([]byte{byte(RefusalRow)}, r.head.value(), &r.head.stored)
		r.head.dirty = false
	}
	for _, n := range r.changed {
		if b := r.blocks[n]; b != nil && b.dirty {
			put(refusedKey(n), b.value(), &b.stored)
			b.dirty = false
		}
	}
	r.changed = r.changed[:0]
	return changes
}

// rows returns all of the list as a snapshot holds it.
func (r *Refusals) rows() []rows.Change {
	var list []rows.Change
	if r.head != nil {
		list = append(list, rows.Change{Key: []byte{byte(RefusalRow)}, Value: r.head.value()})
	}
	for n, b := range r.blocks {
		list = append(list, rows.Change{Key: refusedKey(n), Value: b.value()})
	}
	return list
}

// Restore puts back a stored row, whose sum is given; a sum of 0 says that it is not in our store. Blocks are joined.
func (r *Refusals) Restore(key, value []byte, sum uint64) error {
	if len(key) != 1 && len(key) != 9 || len(value) < 2 || value[0] != rowVersion {
		return fmt.Errorf("%w: got a refusal of %d + %d bytes", errRow, len(key), len(value))
	}
	if len(key) == 1 {
		return r.restoreHead(value[1:], sum)
	}
	epoch, size := binary.Uvarint(value[1:])
	n := binary.BigEndian.Uint64(key[1:])
	if size <= 0 || len(value) != 1+size+refusedBlock/8 || n >= math.MaxInt64/refusedBlock {
		return fmt.Errorf("%w: got a block of refusals of %d bytes", errRow, len(value))
	}
	b := r.block(int64(n)) // bounded above
	for i := range b.bits {
		b.bits[i] |= binary.LittleEndian.Uint64(value[1+size+8*i:])
	}
	b.epoch = max(b.epoch, epoch)
	if sum != 0 {
		b.stored = sum
		return nil
	}
	r.touch(int64(n), b)
	r.bound()
	return nil
}

// restoreHead puts the head back; of two, each number is the larger one.
func (r *Refusals) restoreHead(b []byte, sum uint64) error {
	since, n := binary.Uvarint(b)
	doubt, m := binary.Uvarint(b[max(n, 0):])
	if n <= 0 || m <= 0 || n+m != len(b) || since > math.MaxInt64 || doubt > math.MaxInt64 {
		return fmt.Errorf("%w: got the head of a list of refusals of %d bytes", errRow, len(b))
	}
	if sum != 0 {
		r.head = &refusedHead{since: int64(since), doubt: int64(doubt), stored: sum}
		return nil
	}
	if r.head != nil {
		since, doubt = max(since, uint64(r.head.since)), max(doubt, uint64(r.head.doubt))
	}
	r.JudgedSince(int64(since), int64(doubt))
	return nil
}
