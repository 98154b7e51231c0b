package kafkaiotest

import (
	"slices"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// The methods in this file are for tests. No fault applies to them. They panic if the topic or partition was not created.

// Append appends messages, as another producer would, and returns the offset of the first.
func (k *Kafka) Append(topic string, partition int, msgs ...kafkaio.Message) (base int64) {
	k.change(func() { base = k.mustPartition(topic, partition).append(msgs) })
	return base
}

// Records returns the records that a partition holds. Their bytes are the partition's: do not change them.
func (k *Kafka) Records(topic string, partition int) []kafkaio.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.mustPartition(topic, partition).records)
}

// Ends returns the offset of the first record that a partition holds, and of the next one that it will get.
func (k *Kafka) Ends(topic string, partition int) (start, end int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.mustPartition(topic, partition)
	return p.start, p.end
}

// Size returns how many partitions a topic has.
func (k *Kafka) Size(topic string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.mustTopic(topic).partitions)
}

// Edit replaces the records of a partition by those that f returns, in offset order. The partition then begins at the first
// and ends behind the last of them; without any it is empty, from offset 0. An offset in between without a record is a
// kafkaio.SkipGap. Earlier skips and corruptions of the partition are removed.
func (k *Kafka) Edit(topic string, partition int, f func(records []kafkaio.Record) []kafkaio.Record) {
	k.change(func() {
		p := k.mustPartition(topic, partition)
		p.records, p.skips, p.corrupt = f(p.records), nil, nil
		p.start, p.end = 0, 0
		if n := len(p.records); n > 0 {
			p.start, p.end = p.records[0].Offset, p.records[n-1].Offset+1
		}
	})
}

// Trim removes the records before offset start, as retention does.
func (k *Kafka) Trim(topic string, partition int, start int64) {
	k.change(func() { k.mustPartition(topic, partition).trim(start) })
}

// Cut removes the records from offset end on, as happens when a broker becomes leader before it has copied them. The messages are what
// that leader appends before anybody fetches.
func (k *Kafka) Cut(topic string, partition int, end int64, msgs ...kafkaio.Message) {
	k.change(func() {
		p := k.mustPartition(topic, partition)
		p.cut(end)
		p.append(msgs)
	})
}

// Corruption is a batch that fails its checksum.
type Corruption struct {
	From, To int64 // its first and last offset
	HeaderTo int64 // the last offset in its header, which may be corrupt too; 0 is To
	Fetches  int   // how many fetches fail; 0 is all
}

// Corrupt makes a batch of a partition corrupt. A fetch from an offset before the batch returns the records before the
// batch.
func (k *Kafka) Corrupt(topic string, partition int, c Corruption) {
	if c.HeaderTo == 0 {
		c.HeaderTo = c.To
	}
	if c.Fetches == 0 {
		c.Fetches = -1
	}
	k.change(func() {
		p := k.mustPartition(topic, partition)
		p.corrupt = append(p.corrupt, c)
	})
}

// Skip appends n offsets whose records cannot be read, for the given reason.
func (k *Kafka) Skip(topic string, partition int, n int64, reason kafkaio.SkipReason) {
	k.change(func() {
		p := k.mustPartition(topic, partition)
		p.skips = append(p.skips, kafkaio.Skip{From: p.end, To: p.end + n - 1, Reason: reason})
		p.end += n
	})
}
