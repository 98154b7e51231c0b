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

// canaries are the callers that a Link makes up, one per partition, and what they found out about the lag.
type canaries struct {
	producer schemas.ProducerID

	mu      sync.Mutex                   // protects what follows
	samples [canarySamples]time.Duration // a ring
	count   uint64                       // samples, ever
}

// canarySamples is how many measurements Stats summarises: two minutes' worth.
const canarySamples = 128

// maxLag is the longest lag that is believed. Beyond it the answer is to somebody else's question.
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

// answer takes the analyzer's answer to a canary, which may be another link's.
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
	}
}

// last returns the newest measurement in nanoseconds, or 0.
func (c *canaries) last() int64 { return int64(c.lag().Last) }

// Lag is what canaries measured: from a request to its decision in this process.
type Lag struct {
	Last, P50, P99 time.Duration // of the newest measurements, two minutes' worth by default; 0 if there are none
	Samples        uint64        // ever
}

func (c *canaries) lag() Lag {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == 0 {
		return Lag{}
	}
	sorted := c.samples
	held := sorted[:min(c.count, canarySamples)]
	slices.Sort(held)
	return Lag{
		Last: c.samples[(c.count-1)%canarySamples], Samples: c.count,
		P50: quantile(held, 0.5), P99: quantile(held, 0.99),
	}
}

// quantile returns the q-quantile by the nearest-rank method.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}
