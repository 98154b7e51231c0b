package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// How often a topic is looked for, and how often the log repeats that it is missing.
const (
	lookEvery   = kafkaio.DefaultGrowthCheck
	repeatEvery = time.Minute
)

// unknown is how many partitions were assigned before anybody has counted them.
const unknown = -1

// presence is what is known of a foreign topic: whether it exists, and how much of it this member reads. Its zero value knows
// nothing. Any goroutine may use it.
type presence struct {
	mu       sync.Mutex
	looked   bool         // guarded by mu: count is known
	count    int          // guarded by mu: partitions, 0 while the topic is missing
	member   bool         // guarded by mu: the group has assigned partitions, maybe none
	assigned int          // guarded by mu: count when the group assigned partitions last; unknown until the next count
	waiting  map[int]bool // guarded by mu: by partition of this member, whether no broker has answered a fetch yet
}

func (p *presence) partitions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// counted takes note of how many partitions the topic has now, and returns how many it had.
func (p *presence) counted(n int) (before int, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, first = p.count, !p.looked
	p.count, p.looked = n, true
	if p.assigned == unknown {
		p.assigned = n
	}
	return before, first
}

// joined takes note of the partitions that the group assigns to this member, and of how many it assigns to all members, if
// that is known.
func (p *presence) joined(partitions []int, all int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := make(map[int]bool, len(partitions))
	for _, n := range partitions {
		waited, known := p.waiting[n]
		waiting[n] = waited || !known
	}
	p.waiting, p.member, p.assigned = waiting, true, all
}

// reached takes note of an answer about a partition.
func (p *presence) reached(partition int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[partition] {
		p.waiting[partition] = false
	}
}

// waits returns what is missing for a member to read its part of a topic, or nothing.
func (p *presence) waits() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var away []int
	for n, waiting := range p.waiting {
		if waiting {
			away = append(away, n)
		}
	}
	slices.Sort(away)
	switch {
	case p.looked && p.count == 0:
		return kafkaio.ErrNoTopic.Error()
	case !p.member:
		return "its consumer group has not answered yet"
	case p.assigned != unknown && p.count > p.assigned:
		return fmt.Sprintf("it has %d partitions, of which %d are new and not read yet", p.count, p.count-p.assigned)
	case len(away) > 0:
		return fmt.Sprintf("no broker has answered yet for partitions %v", away)
	}
	return ""
}

// Waits returns what is missing for this member to read its part of the topic, or nothing. Any goroutine may call it.
func (t *Topic) Waits() string {
	if why := t.presence.waits(); why != "" {
		return fmt.Sprintf("topic %s: %s", t.Name, why)
	}
	return ""
}

// Waits returns what is missing for the topics to be read, or nothing. Any goroutine may call it.
func (f *Feed) Waits() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.topics {
		if why := t.Waits(); why != "" {
			return why
		}
	}
	return ""
}

func (f *Feed) addTopic(t *Topic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.topics = append(f.topics, t)
}

// look counts the topic's partitions every ten seconds until ctx ends, and logs changes. The group makes its members read new
// partitions: see kafkaio.GroupConfig.GrowthCheck.
func (t *Topic) look(ctx context.Context) {
	if t.Count == nil {
		return
	}
	var logged time.Time // when the log last said that the topic is missing
	for ctx.Err() == nil {
		n, err := t.Count(ctx)
		if err == nil || errors.Is(err, kafkaio.ErrNoTopic) {
			logged = t.changed(n, logged)
		}
		_ = kafkaio.Sleep(ctx, cmp.Or(t.every, lookEvery)) // whether ctx has ended is seen above
	}
}

// changed takes note of the number of partitions, and logs it if it is new. A missing topic is logged once a minute.
func (t *Topic) changed(n int, logged time.Time) time.Time {
	before, first := t.presence.counted(n)
	now := t.Feed.c.Now()
	log := t.Feed.c.Logger.With("topic", t.Name)
	switch {
	case n == 0 && now.Sub(logged) >= repeatEvery:
		log.Warn("nothing to read: topic is missing, or hidden by ACLs; looking again", "every", lookEvery)
		return now
	case n > 0 && n != before && !first:
		log.Info("topic has another number of partitions", "got", n, "before", before)
	}
	return logged
}
