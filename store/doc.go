// Package store keeps the state of one partition on disk: rows, and beside them the checkpoint that says up to where in
// the log they hold. Both change in one transaction or not at all, so that what is read back after a crash is the fold
// of a prefix of the log.
//
//	Commit(checkpoint, changes) ──▶ pages, by bucket ──▶ one Badger transaction ──▶ fsync
//	merge: a bucket's pages ──▶ as few as hold its rows, when they have become thrice those
//	Load ◀── newest of each row ◀── verify: sum of row hashes = digest in the checkpoint
//
// A row is a key and a value, opaque to the store. Badger takes 4 to 5 µs of CPU for each key that it is given, so rows are
// not its keys: those of a commit are packed into pages, one or more for each bucket of keys that changed, and the pages of a
// bucket are merged when two thirds of them may be old (a log-structured merge tree of one level: O'Neil et al., 1996).
// That commits five times as many rows a second, and they are never looked up one by one: counting goes on in memory.
//
// The set digest is the sum of Sum(key, value) over all rows, modulo 2^64; it is independent of order and is kept up to
// date by adding what a commit brings and subtracting what it replaces. Badger cuts a damaged write-ahead log at the
// first bad byte without a word, and of two such files it may keep a newer and lose an older: the digest finds what it
// does not report.
//
// Two more things that Badger cannot stand are kept from it: a full disk, which kills the process by SIGBUS because
// files are written through memory maps (Options.MinFree), and damaged tables, which make it exit (Open reads them
// first). A store that fails is moved aside by Quarantine and rebuilt from the log by its owner.
package store
