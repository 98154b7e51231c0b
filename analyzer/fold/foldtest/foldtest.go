// Package foldtest makes what tests of a fold and of its owner need: rules, frames, and entries of many callers.
package foldtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// T is what *testing.T, *testing.F and *rapid.T have in common.
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Now is when the frames of tests are flushed, in Unix nanoseconds.
const Now = 1_790_000_000 * int64(time.Second)

// Rules returns the rules given as YAML, one {…} a line.
func Rules(t T, lines ...string) *rules.Set {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("version: 1\nrules:\n")
	for _, line := range lines {
		b.WriteString("  - " + line + "\n")
	}
	set, err := rules.Parse("rules.yaml", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Frame returns a frame for the only partition of a topic, by one producer, which is always the same.
func Frame(seq uint64, flushed int64, entries ...schemas.Entry) schemas.Frame {
	return schemas.Frame{
		Producer: Producer(1), Seq: seq, Flushed: flushed, Partitions: 1,
		Fingerprint: schemas.DefaultPartitionKey().Fingerprint(), Entries: entries,
	}
}

// KeysFrame returns a frame of one producer, flushed at a time, with one request of each key at that time. The key "canary" stands for
// a canary.
func KeysFrame(id schemas.ProducerID, seq uint64, at time.Time, keys ...string) schemas.Frame {
	f := Frame(seq, at.UnixNano())
	f.Producer = id
	for _, k := range keys {
		kind := "key"
		if k == "canary" {
			kind = schemas.KindCanary
		}
		f.Entries = append(f.Entries, schemas.Entry{Time: at.UnixNano(), Kind: kind, ID: k, Count: 1})
	}
	return f
}

// Encode returns the bytes of a frame.
func Encode(t T, f schemas.Frame) []byte {
	t.Helper()
	b, err := f.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Producer returns the id of the n-th producer; n is not negative.
func Producer(n int) (id schemas.ProducerID) {
	binary.BigEndian.PutUint64(id[8:], uint64(max(n, 0)))
	return id
}

// VariedRules returns rules of all kinds, twice: rules of one name keep their counts where their shape is the same.
func VariedRules(t T) []*rules.Set {
	t.Helper()
	return []*rules.Set{
		Rules(t,
			"{name: fixed, callers: key, limit: 6, window: 1m, algorithm: fixed, warn: [0.5, 1]}",
			"{name: sliding, callers: key, limit: 8, window: 5m, slots: 5, close_for: 2m, escalate: {factor: 2, max: 20m, forget: 30m}}",
			"{name: log, callers: ip, limit: 5, window: 10m, algorithm: log, overrides: {10.0.0.1: unlimited}}",
			"{name: bucket, callers: key, limit: 10, window: 1m, algorithm: gcra, burst: 4, count_blocked: true}",
			"{name: cost, callers: key, limit: 20, window: 1h, measure: cost, mode: shadow}",
			"{name: tokens, callers: key, limit: 30, window: 1m, algorithm: fixed, measure: cost, charge: arrival, hold: {estimate: 3, longest: 5m}}",
			"{name: flights, callers: key, limit: 7, measure: in_flight, hold: {longest: 5m}}",
			"{name: shared, callers: key, capacity: 40, window: 1m, protect: 10%, weights: {10.0.0.1: 2}}",
			"{name: daily, callers: ip, limit: 30, window: day, timezone: Europe/Berlin}"),
		Rules(t,
			"{name: daily, callers: ip, limit: 10, window: day, timezone: Europe/Berlin, mode: shadow}",
			"{name: bucket, callers: 'key:10.*', limit: 20, window: 1m, algorithm: gcra, burst: 3, count_blocked: true}",
			"{name: log, callers: ip, limit: 3, window: 10m, algorithm: log}",
			"{name: sliding, callers: key, limit: 8, window: 5m, slots: 6, close_for: 2m}",
			"{name: tokens, callers: key, limit: 20, window: 1m, algorithm: fixed, measure: cost, charge: arrival, hold: {estimate: 2, longest: 4m}}",
			"{name: flights, callers: key, limit: 9, measure: in_flight, hold: {longest: 5m}}",
			"{name: shared, callers: key, capacity: 30, window: 1m, protect: 5%}",
			"{name: fixed, callers: key, limit: 4, window: 1m, algorithm: fixed, close_for: 10m, escalate: {factor: 3, max: 1h}}"),
	}
}

// ZipfEntries returns n entries in order of time, over some of a million callers: many by few.
func ZipfEntries(n int) []schemas.Entry {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same callers in each run
	zipf := rand.NewZipf(rng, 1.1, 8, 999_999)
	ids := make(map[uint64]string)
	entries := make([]schemas.Entry, n)
	for i := range entries {
		k := zipf.Uint64()
		if ids[k] == "" {
			ids[k] = fmt.Sprintf("10.%d.%d.%d", k>>16&0xff, k>>8&0xff, k&0xff)
		}
		entries[i] = schemas.Entry{Time: Now + int64(i)*10_000, Kind: "ip", ID: ids[k], Resource: "/v1/things", Count: 1}
	}
	return entries
}

// BenchRules returns rules by algorithm, with a limit that few callers reach.
func BenchRules() map[string]string {
	return map[string]string{
		"fixed":   "{name: r, callers: ip, limit: 1000000, window: 1m, algorithm: fixed}",
		"sliding": "{name: r, callers: ip, limit: 1000000, window: 1m}",
		"pool":    "{name: r, callers: ip, capacity: 1000000000, window: 1m}",
		"gcra":    "{name: r, callers: ip, limit: 1000000, window: 1m, algorithm: gcra}",
	}
}
