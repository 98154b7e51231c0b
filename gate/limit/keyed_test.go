package limit

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestKeysAreApart(t *testing.T) {
	for name, like := range kinds(2, time.Hour) {
		t.Run(name, func(t *testing.T) {
			k := NewKeyed(1000, like)
			at, want := noon(), 2
			if name == "leaky" {
				want = 1
			}
			for i := range 100 {
				key, got := fmt.Sprint("key ", i), 0
				for range 4 {
					if k.AllowN(at, key, 1) {
						got++
					}
				}
				if got != want {
					t.Errorf("%s: admitted %d, want %d", key, got, want)
				}
			}
			if s := k.Stats(); s.Keys != 100 || s.Places < 2000 || s.Displaced != 0 {
				t.Errorf("got %+v; want 100 keys in 2000 places or more, none displaced", s)
			}
			if !like.(anyLimiter).AllowN(at, 1) {
				t.Error("what a key was charged was charged to the pattern")
			}
		})
	}
}

// TestKeyedMemoryIsBounded floods a Keyed with keys and watches its memory, and one who is over its limit all the while:
// however many come, it is not forgotten.
func TestKeyedMemoryIsBounded(t *testing.T) {
	for name, like := range kinds(10, time.Hour) {
		t.Run(name, func(t *testing.T) {
			k := NewKeyed(100, like)
			before, at := k.Stats(), noon()
			offender := k.Key("offender")
			for offender.AllowN(at, 1) {
			}
			admitted := 0
			for i := range 50_000 {
				k.AllowN(at, fmt.Sprint(i%20_000), 1)
				if i%10 == 0 && offender.AllowN(at, 1) {
					admitted++
				}
			}
			if admitted > 0 {
				t.Errorf("%d more were admitted of the offender", admitted)
			}
			if after := k.Stats(); after.Bytes != before.Bytes || after.Keys > after.Places || after.Displaced == 0 {
				t.Errorf("got %+v, before the flood %+v", after, before)
			}
		})
	}
}

// TestKeyedNeverMore lets many more keys than there is room for ask at random. No key is admitted more than the limit.
func TestKeyedNeverMore(t *testing.T) {
	const n, keys = 5, 400
	for name, like := range map[string]Pattern{
		"fixed": NewFixed(n, time.Minute), "token": NewTokenBucket(n, time.Minute, 0), "leaky": NewLeakyBucket(n, time.Minute, 9),
	} {
		t.Run(name, func(t *testing.T) {
			k := NewKeyed(40, like)
			start := noon()
			var admitted [keys][]admission
			random := rand.New(rand.NewPCG(1, 2))
			for i := range 40_000 {
				at := int64(i) * int64(10*time.Millisecond)
				key := int(random.ExpFloat64() * keys / 10)
				if key < keys && k.AllowN(start.Add(time.Duration(at)), fmt.Sprint(key), 1) {
					admitted[key] = append(admitted[key], admission{at, 1})
				}
			}
			if k.Stats().Displaced == 0 {
				t.Error("none was displaced: that is no test")
			}
			for key, all := range admitted {
				if got, limit := bounds(time.Minute)[name](all, n); got > limit {
					t.Errorf("key %d: admitted %d, want at most %d", key, got, limit)
				}
			}
		})
	}
}

// TestCallersWithFewRequestsAreSpared has a few offenders among many others, in less room than all of them would need.
func TestCallersWithFewRequestsAreSpared(t *testing.T) {
	k := NewKeyed(500, NewTokenBucket(100, time.Second, 0))
	at, refused, asked := noon(), 0, 0
	for i := range 100_000 {
		at = at.Add(100 * time.Microsecond)
		if i%2 == 0 {
			k.AllowN(at, fmt.Sprint("offender ", i/2%10), 1) // 500 a second each
			continue
		}
		asked++
		if !k.AllowN(at, fmt.Sprint(i/2%2000), 1) {
			refused++
		}
	}
	if refused*1000 > asked {
		t.Errorf("got %d of %d keys with few events refused, want none", refused, asked)
	}
}

// TestLimitsOfKeysChange changes the pattern's limit.
func TestLimitsOfKeysChange(t *testing.T) {
	for name, like := range kinds(4, time.Hour) {
		t.Run(name, func(t *testing.T) {
			k, later := NewKeyed(10, like), time.Duration(0)
			count := func() (got int) {
				for k.AllowN(time.Now().Add(later), "a", 1) {
					got++
				}
				return got
			}
			first := count()
			like.SetLimit(2)
			if got := count(); got != 0 {
				t.Errorf("admitted %d more after the limit fell", got)
			}
			like.SetLimit(8)
			// A key's ring does not grow. Of a bucket of 2, no more than 2 can be missing.
			want := map[string][2]int{"ring": {4, 0}, "fixed": {4, 4}, "sliding": {4, 4}, "token": {4, 6}, "leaky": {1, 0}}[name]
			if got := [2]int{first, count()}; got != want {
				t.Errorf("admitted %d, then when the limit rose more; want %d", got, want)
			}
			later = 3 * time.Hour
			last := map[string]int{"ring": 4, "fixed": 8, "sliding": 8, "token": 8, "leaky": 1}[name]
			if got := count(); got != last {
				t.Errorf("admitted %d later, want %d", got, last)
			}
		})
	}
}

// TestKeyedUnderContention has goroutines fight for the places of two sets: every key is admitted no more than its limit.
func TestKeyedUnderContention(t *testing.T) {
	const n, keys = 50, 40
	k := NewKeyed(7, NewTokenBucket(n, time.Hour, 0))
	at := noon()
	var admitted [keys]atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 3))
			for range 5000 {
				key := random.IntN(keys)
				if k.AllowN(at, fmt.Sprint(key), 1) {
					admitted[key].Add(1)
				}
			}
		})
	}
	wg.Wait()
	sum := int64(0)
	for key := range admitted {
		got := admitted[key].Load()
		sum += got
		if got > n {
			t.Errorf("key %d: admitted %d, want at most %d", key, got, n)
		}
	}
	if places := int64(k.Stats().Places); sum > places*n || sum < places*n/2 {
		t.Errorf("admitted %d in %d places of %d", sum, places, n)
	}
}

func TestKeyIsForEver(t *testing.T) {
	k := NewKeyed(1, NewTokenBucket(1, time.Minute, 0))
	key, at := k.Key("a"), noon()
	if !key.AllowN(at, 1) || key.AllowN(at, 1) {
		t.Fatal("a new key has not one")
	}
	for i := range 1000 {
		k.AllowN(at, fmt.Sprint(i), 1)
	}
	if key.AllowN(at, 1) {
		t.Error("a key that lost its place was forgiven")
	}
	if !key.AllowN(at.Add(time.Hour), 1) {
		t.Error("a key that lost its place was never forgiven")
	}
	if r := key.ReserveN(at.Add(time.Hour), 1, time.Hour); r.DelayFrom(at.Add(time.Hour)) != time.Minute {
		t.Errorf("the next turn is in %v, want a minute", r.DelayFrom(at.Add(time.Hour)))
	}
}

func TestHashStandsForTheCaller(t *testing.T) {
	k, at := NewKeyed(10, NewFixed(1, time.Hour)), noon()
	for _, hash := range []uint64{0, 2, 1 << 63, ^uint64(0)} {
		if !k.AllowHash(at, hash) || k.AllowHash(at, hash) {
			t.Errorf("hash %x: admitted none or two of one", hash)
		}
	}
}
