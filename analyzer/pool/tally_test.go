package pool

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// TestClassesAreQuartersOfAnOctave: four for each doubling, from a thousandth of a request to the largest int64.
func TestClassesAreQuartersOfAnOctave(t *testing.T) {
	for level := int64(1); level < 1<<53; level += 1 + level/97 { // exact as floats
		lowest, next := math.Pow(2, float64(classOf(level, Unit*Unit))/4), math.Pow(2, float64(classOf(level, Unit*Unit)+1)/4)
		if got := float64(level); got < lowest*(1-1e-12) || got >= next*(1-1e-12) {
			t.Fatalf("level %d: got class %d, which is from %.1f to %.1f", level, classOf(level, Unit*Unit), lowest, next)
		}
	}
	for _, test := range []struct {
		asked, weight int64
		want          int
	}{
		{1, Unit, 39}, {2, Unit, 43}, {2, 2 * Unit, 39}, {1, Unit / 2, 43}, {0, Unit, 0},
		{math.MaxInt64, 1, maxClass}, {1, math.MaxInt64, 0},
		{0x4c1bf828c6dc54b8, Unit * Unit, 249}, {0x4c1bf828c6dc54b8 - 1, Unit * Unit, 248}, // 2^62.25, rounded up
	} {
		if got := classOf(test.asked, test.weight); got != test.want {
			t.Errorf("%d of weight %d: got class %d, want %d", test.asked, test.weight, got, test.want)
		}
	}
}

// TestATallyHasWhomALevelCanLimit, and no classes of others: those would not fit into a message.
func TestATallyHasWhomALevelCanLimit(t *testing.T) {
	terms := &Terms{Capacity: 1000, Protect: 10 * Unit}
	for _, test := range []struct {
		name          string
		asked, weight int64
		like          int64 // a caller of weight 1 that asks for so much is in the same class; 0 is none
	}{
		{"above what is protected", 11, Unit, 11},
		{"just what is protected", 10, Unit, 0},
		{"little for its weight", 40, 4 * Unit, 0},
		{"more than that", 44, 4 * Unit, 11},
		{"all of it", 1000, Unit, 1000},
		{"many times all of it", 1e15, Unit, 1000},
		{"the largest number", math.MaxInt64, Unit, 1000},
		{"many times all of it, with a weight", 1e15, 4 * Unit, 250},
		{"much for its weight", 500, Unit / 10, 5000},
		{"more than all of it for its weight", 1e15, Unit / 10, 10_000},
	} {
		var got Tally
		got.Add(terms, test.asked, test.weight)
		var want []Class
		if test.like > 0 {
			want = []Class{{classOf(test.like, Unit), 1, test.weight, test.asked}}
		}
		if !slices.Equal(got.Classes, want) {
			t.Errorf("%s: got %v, want %v", test.name, got.Classes, want)
		}
	}
}

// TestTalliesOfPartitionsAreOne: in whatever order callers and partitions are added, the classes are the same.
func TestTalliesOfPartitionsAreOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := &Terms{Capacity: 10_000, Protect: 10 * Unit}
		parts := make([]Tally, 4)
		var whole Tally
		for range rapid.IntRange(0, 40).Draw(t, "callers") {
			asked, weight := rapid.Int64Range(1, 1e5).Draw(t, "asked"), rapid.SampledFrom([]int64{1, 500, Unit, 4 * Unit, 1e6}).Draw(t, "weight")
			to := &parts[rapid.IntRange(0, 3).Draw(t, "partition")]
			for _, tally := range []*Tally{to, &whole} {
				tally.Total += asked
				tally.Add(terms, asked, weight)
			}
		}
		var merged Tally
		for _, p := range rapid.Permutation(parts).Draw(t, "order") {
			merged.plus(&p)
		}
		if !reflect.DeepEqual(merged, whole) {
			t.Fatalf("got %+v, want %+v", merged, whole)
		}
		if !slices.IsSortedFunc(whole.Classes, func(a, b Class) int { return a.At - b.At }) {
			t.Fatalf("got classes %v, want them sorted", whole.Classes)
		}
	})
}

func TestATallySurvivesBeingWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := &Terms{Capacity: 1e6, Protect: Unit}
		want := Tally{Quarter: rapid.Int64().Draw(t, "quarter")}
		for range rapid.IntRange(0, 20).Draw(t, "callers") {
			asked := rapid.Int64Range(2, 1e7).Draw(t, "asked")
			want.Total += asked
			want.Add(terms, asked, rapid.Int64Range(1, 1e6).Draw(t, "weight"))
		}
		b := want.AppendTo([]byte("before"))
		got, err := ReadTally(b[len("before"):])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		l := Level{want.Quarter, want.Total, rapid.Int64Range(0, math.MaxInt64).Draw(t, "asked"), want.Total / 2}
		if got, err := ReadLevel(l.AppendTo(nil)); err != nil || got != l {
			t.Fatalf("got %+v, %v, want %+v", got, err, l)
		}
	})
}

// crowd is a tally of a partition whose callers ask for everything between what is protected, a thousandth, and twice the capacity.
func crowd(capacity int64, weights []int64) (*Terms, Tally) {
	terms, tally := &Terms{Capacity: capacity, Protect: capacity}, Tally{Quarter: 1.8e9 * 4}
	for i := range 2000 {
		asked := int64(float64(capacity) / 1000 * math.Pow(2000, float64(i)/2000))
		tally.Total += asked
		tally.Add(terms, asked, weights[i%len(weights)])
	}
	return terms, tally
}

// TestATallyFitsIntoAMessage: as it is for 2,000 callers at all heights, and with fewer classes if numbers are as large as they can be. Such a
// tally still has all demand, and gives nearly the same level.
func TestATallyFitsIntoAMessage(t *testing.T) {
	varied := make([]int64, 401) // 0.001 to 1000
	for i := range varied {
		varied[i] = int64(math.Pow(1e6, float64(i)/float64(len(varied)-1)))
	}
	for _, test := range []struct {
		name     string
		capacity int64
		weights  []int64
		most     int
		same     bool
	}{
		{"10,000", 1e4, []int64{Unit}, 240, true},
		{"a million", 1e6, []int64{Unit}, 300, true},
		{"a trillion", 1e12, []int64{Unit}, 420, true},
		{"a million, and each weight", 1e6, varied, MaxTally, false},
		{"the largest capacity, and each weight", 1e15, varied, MaxTally, false},
	} {
		terms, tally := crowd(test.capacity, test.weights)
		b := tally.AppendTo(nil)
		got, err := ReadTally(b)
		if err != nil || got.Total != tally.Total || len(b) > test.most {
			t.Errorf("%s: got %d bytes, %v, total %d, want at most %d bytes, %d", test.name, len(b), err, got.Total, test.most, tally.Total)
		}
		if same := reflect.DeepEqual(got, tally); same != test.same {
			t.Errorf("%s: got %d classes of %d, want the same: %v", test.name, len(got.Classes), len(tally.Classes), test.same)
		}
		var sum, whole Class
		for _, list := range []struct {
			of  []Class
			sum *Class
		}{{got.Classes, &sum}, {tally.Classes, &whole}} {
			for _, c := range list.of {
				*list.sum = Class{0, list.sum.Callers + c.Callers, list.sum.Weight + c.Weight, list.sum.Asked + c.Asked}
			}
		}
		if sum != whole {
			t.Errorf("%s: got %+v in all classes, want %+v", test.name, sum, whole)
		}
		if level, want := Fill(test.capacity, &got), Fill(test.capacity, &tally); math.Abs(float64(level)/float64(want)-1) > 0.05 {
			t.Errorf("%s: got level %d, want about %d", test.name, level, want)
		}
		t.Logf("%s: %d classes in %d bytes, protected %d", test.name, len(got.Classes), len(b), terms.Protect)
	}
}

// TestTheLongestTally has 480 bytes; one that would have more has half of its classes.
func TestTheLongestTally(t *testing.T) {
	longest := Tally{Total: 1000}
	for at := range 119 {
		longest.Classes = append(longest.Classes, Class{At: 2 * at, Callers: 1, Weight: Unit, Asked: 5}) // 4 bytes
	}
	longest.Classes[7].Asked = 200 // one byte more
	if b := longest.AppendTo(nil); len(b) != MaxTally {
		t.Fatalf("got %d bytes, want %d", len(b), MaxTally)
	}
	if got, err := ReadTally(longest.AppendTo(nil)); err != nil || !reflect.DeepEqual(got, longest) {
		t.Errorf("got %+v, %v, want %+v", got, err, longest)
	}
	longest.Classes[1].Asked = 200
	got, err := ReadTally(longest.AppendTo(nil))
	if err != nil || len(got.Classes) != 60 || got.Total != longest.Total {
		t.Fatalf("got %+v, %v, want 60 classes", got, err)
	}
	for i, want := range map[int]Class{0: {0, 2, 2 * Unit, 205}, 1: {4, 2, 2 * Unit, 10}, 3: {12, 2, 2 * Unit, 205}, 59: {236, 1, Unit, 5}} {
		if got.Classes[i] != want {
			t.Errorf("class %d: got %+v, want %+v", i, got.Classes[i], want)
		}
	}
}

// numbers writes a tally or level number by number: the first one, and each that stands for a weight over that of its callers, has a sign.
func numbers(first int64, rest ...any) []byte {
	b := binary.AppendVarint(nil, first)
	for _, n := range rest {
		switch n := n.(type) {
		case int:
			b = binary.AppendUvarint(b, uint64(n))
		case uint64:
			b = binary.AppendUvarint(b, n)
		case int64:
			b = binary.AppendVarint(b, n)
		}
	}
	return b
}

func TestTalliesThatAreMalformed(t *testing.T) {
	const zero = int64(0)
	for name, b := range map[string][]byte{
		"nothing":                                    {},
		"no total":                                   numbers(7),
		"a negative total":                           numbers(7, uint64(1<<63)),
		"a number over 64 bits":                      append(numbers(7), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		"a class without callers":                    numbers(7, 100, 40, 0, zero, 1),
		"a class cut short":                          numbers(7, 100, 40, 1, zero),
		"a second class cut short":                   numbers(7, 100, 40, 1, zero, 5, 1),
		"more callers than requests":                 numbers(7, 100, 40, 3, zero, 2),
		"more requests than in all":                  numbers(7, 100, 40, 3, zero, 101),
		"more requests than in all, in two":          numbers(7, 100, 40, 3, zero, 60, 1, 3, zero, 41),
		"a class over the last":                      numbers(7, 100, maxClass+1, 3, zero, 60),
		"a class over the last, by two steps":        numbers(7, 100, maxClass, 3, zero, 60, 1, 1, zero, 1),
		"the same class again":                       numbers(7, 100, 40, 3, zero, 60, 0, 3, zero, 6),
		"the first class again":                      numbers(7, 100, 0, 3, zero, 60, 0, 3, zero, 6),
		"a weight below a thousandth each":           numbers(7, 100, 40, 3, int64(-2998), 60),
		"a weight that is negative":                  numbers(7, 100, 40, 3, int64(-3000), 60),
		"a weight as negative as it can be":          numbers(7, 100, 40, 3, int64(math.MinInt64), 60),
		"more bytes than the longest tally may have": append(numbers(7, 1000), make([]byte, MaxTally)...),
	} {
		if got, err := ReadTally(b); !errors.Is(err, errTally) {
			t.Errorf("%s: got %+v, %v, want an error", name, got, err)
		}
	}
	for name, b := range map[string][]byte{
		"nothing": {}, "three numbers": numbers(7, 1, 2), "five numbers": numbers(7, 1, 2, 3, 4), "a negative level": numbers(7, uint64(1<<63), 2, 3),
	} {
		if got, err := ReadLevel(b); !errors.Is(err, errTally) {
			t.Errorf("level of %s: got %+v, %v, want an error", name, got, err)
		}
	}
}

// TestTheEdgesOfATally can be read: the least and the largest numbers that are not malformed.
func TestTheEdgesOfATally(t *testing.T) {
	const most = math.MaxInt64
	for _, want := range []Tally{
		{Quarter: math.MinInt64},
		{Quarter: -1, Total: 100, Classes: []Class{{0, 3, 3, 3}, {1, 1, Unit, 97}}},
		{Quarter: most, Total: most, Classes: []Class{{0, most - 1, most, most - 1}, {maxClass, 1, most, 1}}},
	} {
		if got, err := ReadTally(want.AppendTo(nil)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

// FuzzReadTally: what is read is a demand, and is written and read as the same.
func FuzzReadTally(f *testing.F) {
	f.Add(numbers(7, 100, 40, 3, int64(9000), 60, 1, 1, int64(0), 1))
	f.Add(numbers(-7, uint64(math.MaxInt64), 0, uint64(1<<62), int64(0), uint64(1<<62), maxClass, 1, int64(math.MaxInt64), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		tally, err := ReadTally(b)
		if err != nil {
			return
		}
		again, err := ReadTally(tally.AppendTo(nil))
		if err != nil || !reflect.DeepEqual(again, tally) {
			t.Fatalf("got %+v, %v, want %+v", again, err, tally)
		}
		left, last := tally.Total, -1
		for _, c := range tally.Classes {
			if left = left - c.Asked; left < 0 || c.At <= last || c.At > maxClass || c.Callers < 1 || c.Weight < c.Callers {
				t.Fatalf("got %+v", tally)
			}
			last = c.At
		}
		if left < 0 {
			t.Fatalf("got %+v, whose classes ask for more than all", tally)
		}
		terms := &Terms{Capacity: integer.Add(tally.Total/2, 1), Protect: 1}
		if l := new(Level).next(terms, &tally); l.Level < 0 || l.Above < 0 {
			t.Fatalf("got level %+v of %+v", l, tally)
		}
	})
}

// FuzzReadLevel: what is read is a level, and is written and read as the same.
func FuzzReadLevel(f *testing.F) {
	f.Add(numbers(7, 1000, 2000, 3), int64(Unit))
	f.Add(numbers(math.MinInt64, uint64(math.MaxInt64), uint64(math.MaxInt64), uint64(math.MaxInt64)), int64(1e6))
	f.Fuzz(func(t *testing.T, b []byte, weight int64) {
		l, err := ReadLevel(b)
		if err != nil {
			return
		}
		if again, err := ReadLevel(l.AppendTo(nil)); err != nil || again != l {
			t.Fatalf("got %+v, %v, want %+v", again, err, l)
		}
		terms := &Terms{Capacity: 1000, Protect: Unit}
		if got := l.Limit(terms, min(max(weight, 1), 1e6)); got < terms.Protect {
			t.Fatalf("got limit %d under %+v", got, l)
		}
	})
}

func BenchmarkTallyAdd(b *testing.B) {
	terms := &Terms{Capacity: 1e6, Protect: 1000 * Unit}
	_, tally := crowd(1e6, []int64{Unit})
	var asked int64
	b.ReportAllocs()
	for b.Loop() {
		asked = asked%1e6 + 1777
		tally.Add(terms, asked, Unit)
	}
}
