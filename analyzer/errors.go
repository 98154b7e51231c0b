package analyzer

import "errors"

// Errors of an owner. An Analyzer logs them and starts another owner.
var (
	// errFenced says that another owner has claimed the partition.
	errFenced = errors.New("partition was claimed by another owner")
	// errStale says that a store is good, but that to start from a snapshot is quicker.
	errStale = errors.New("store is older than the last snapshot")
	// errReplaced says that counts lack a place that a later owner has applied.
	errReplaced = errors.New("counted by an owner that was replaced")
	// errOtherLog says that requests[p] no longer has the last record that was counted. The error is also kafkaio.ErrTruncated.
	errOtherLog = errors.New("the log is not the one that was counted")
	// errRoom says that an owner without a store can have one now.
	errRoom = errors.New("there is room for a store again")
	// errUnsent says that the owner stops before its last decisions could be published. The next owner repeats them.
	errUnsent = errors.New("stopped with decisions unsent")
)
