package analyzer

// OwnerStats is what an owner is doing, and what it has done since it was made.
type OwnerStats struct {
	Partition int
	State     State
	Next      int64 // to fold
	Committed int64 // all before it is in the store
	Fold      FoldStats
	Publish   PublishStats
	Snapshots uint64 // complete ones, written to the state topic
	Unshown   uint64 // records that were refused, and dropped instead of written to the topic of rejects
}

// Stats returns a snapshot; the fold's part is as of the last batch.
func (o *Owner) Stats() OwnerStats {
	return OwnerStats{
		Partition: o.config.Fold.Partition, State: State(o.state.Load()), Next: o.next.Load(), Committed: o.durable.Load(),
		Fold: *o.stats.Load(), Publish: o.publisher.stats(), Snapshots: o.states.cycles.Load(),
		Unshown: o.rejects.dropped.Load(),
	}
}
