package kafkalink

import (
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// canaries are the made-up callers of a Link, one for each partition, and the lags that they measured.
type canaries struct {
	producer schemas.ProducerID

	mu      sync.Mutex                   // protects what follows
	samples [canarySamples]time.Duration // a ring
	count   uint64                       // of all samples so far
	sum     time.Duration                // of all samples so far
	buckets [lagBuckets]uint64           // all samples so far, by the first of LagBounds that is not below them
}

// canarySamples is how many measurements Stats summarises: those of two minutes by default.
const canarySamples = 128

// maxLag is the longest lag that is believed. An answer that is older belongs to another canary.
const maxLag = time.Hour

// prefix is what the ids of this link's canaries begin with.
func (c *canaries) prefix() string { return hex.EncodeToString(c.producer[:]) + "-" }

// ids returns for each of n partitions the id of a canary that hashes to it.
func (c *canaries) ids(key schemas.PartitionKey, n int) []string {
	ids := make([]string, n)
	for i, missing := 0, n; missing > 0; i++ {
		id := c.prefix() + strconv.Itoa(i)
		if p := schemas.Partition(key.Hash(schemas.KindCanary, id), n); ids[p] == "" {
			ids[p] = id
			missing--
		}
	}
	return ids
}

// answer takes the analyzer's answer to a canary. It passes over answers to canaries of other links.
func (c *canaries) answer(d *schemas.Decision, now time.Time) {
	if !strings.HasPrefix(d.Caller.ID, c.prefix()) {
		return
	}
	at := now.UnixNano()
	if lag := time.Duration(at - d.Evidence.AsOfTime); d.Evidence.AsOfTime > at-int64(maxLag) && lag >= 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.samples[c.count%canarySamples] = lag
		c.count++
		c.sum += lag
		bounds := LagBounds()
		if i, _ := slices.BinarySearch(bounds[:], lag); i < lagBuckets {
			c.buckets[i]++
		}
	}
}

// last returns the newest measurement in nanoseconds, or 0.
func (c *canaries) last() int64 { return int64(c.lag().Last) }

// Lag is what canaries measured: from a request to its decision in this process.
type Lag struct {
	Last, P50, P99 time.Duration // of the newest measurements, those of two minutes by default; 0 if there are none
	Samples        uint64        // all since New

	Sum    time.Duration      // of all samples
	Within [lagBuckets]uint64 // how many samples were at most as long as each of LagBounds
}

const lagBuckets = 16

// LagBounds returns the lags up to which Lag.Within counts, in order.
func LagBounds() [lagBuckets]time.Duration {
	const ms = time.Millisecond
	return [...]time.Duration{
		1 * ms, 2 * ms, 3 * ms, 5 * ms, 7500 * time.Microsecond, 10 * ms, 15 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms,
		500 * ms, 1000 * ms, 2500 * ms, 10_000 * ms, 60_000 * ms,
	}
}

func (c *canaries) lag() Lag {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == 0 {
		return Lag{}
	}
	sorted := c.samples
	newest := sorted[:min(c.count, canarySamples)]
	slices.Sort(newest)
	l := Lag{
		Last: c.samples[(c.count-1)%canarySamples], Samples: c.count, Sum: c.sum, Within: c.buckets,
		P50: quantile(newest, 0.5), P99: quantile(newest, 0.99),
	}
	for i := range l.Within[1:] {
		l.Within[i+1] += l.Within[i]
	}
	return l
}

// quantile returns the q-quantile by the nearest-rank method.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}
