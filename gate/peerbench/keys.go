package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// idBytes is the length of all ids here.
const idBytes = 22

// crowd returns two groups of callers. They are chosen at random from ten times as many as are in the larger group.
func crowd(first, second int) (a, b []string) {
	numbers := dice(1).Perm(10 * max(first, second))
	return ids(numbers[:first]), ids(numbers[first : first+second])
}

// dice returns a source of numbers that are the same in each run.
func dice(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // not a secret: two runs must measure the same
}

// ids returns callers by their numbers. They are contiguous in memory, in this order, so that reading them costs little: a
// server has just read the id, and that cost is not part of the measurement.
func ids(numbers []int) []string {
	var b strings.Builder
	b.Grow(len(numbers) * idBytes)
	for _, n := range numbers {
		fmt.Fprintf(&b, "caller-%0*d", idBytes-len("caller-"), n)
	}
	text, out := b.String(), make([]string, len(numbers))
	for i := range out {
		out[i] = text[i*idBytes : (i+1)*idBytes]
	}
	return out
}

// copies returns the same keys in other memory. Subjects are filled with copies: a map compares a string with itself at no
// cost, but in a server each request brings a new string.
func copies(keys []string) []string {
	text, out := strings.Join(keys, ""), make([]string, len(keys))
	for i, k := range keys {
		out[i], text = text[:len(k)], text[len(k):]
	}
	return out
}

// shuffled returns the same keys in another order. Subjects are filled in another order than they are asked in. Otherwise
// callers of successive questions would be neighbours in a subject's memory, and the processor would prefetch the next one.
func shuffled(keys []string) []string {
	out := slices.Clone(keys)
	dice(2).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// repeated returns n times the same keys, in turn.
func repeated(keys []string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = keys[i%len(keys)]
	}
	return out
}

// rounds returns keys in chunks, again and again. Each worker begins at another key.
type rounds struct {
	keys []string
	at   []int // by worker
	step int
}

// chunk is the number of keys of one call of Ask.
const chunk = 1000

func newRounds(keys []string) *rounds {
	r := &rounds{keys: keys, at: make([]int, maxWorkers*padding), step: min(chunk, len(keys))}
	for w := range maxWorkers {
		r.at[w*padding] = len(keys) / maxWorkers * w / r.step * r.step
	}
	return r
}

const (
	maxWorkers = 2
	padding    = 16 // words between the variables of two workers: two cache lines
)

// next returns a worker's next chunk.
func (r *rounds) next(worker int) []string {
	at := &r.at[worker*padding]
	if *at+r.step > len(r.keys) {
		*at = 0
	}
	keys := r.keys[*at : *at+r.step]
	*at += r.step
	return keys
}
