// Package store keeps the state of one partition on disk: rows, and a checkpoint that says up to which offset of the log
// they are counted. Both change in one transaction or not at all. So the rows that are read back after a crash are the fold
// of a prefix of the log.
//
//	Commit(checkpoint, changes) ──▶ pages, by bucket ──▶ one Badger transaction ──▶ fsync
//	compaction: the pages of a bucket ──▶ as few as hold its rows, when they have become three times as large
//	Load ◀── newest version of each row ◀── verify: sum of row hashes = digest in the checkpoint
//
// Package store/kafkaio lies below this one because the log in Kafka and these rows are the two places where floodgate's
// state is durable. The two packages do not import each other.
//
// # A log-structured merge tree on top of another one
//
// Badger is a log-structured merge tree, and this package is a second one, of one level, on top of it (O'Neil et al., 1996).
// The reason is measured: Badger takes 4 to 5 µs of CPU for each key that it is given. So a row is not a key of Badger. The
// rows of a commit are packed into pages, one or more for each hash bucket of keys that changed, and a page is a key of
// Badger. The pages of a bucket are compacted when two thirds of their bytes may be old versions of rows. This commits five
// times as many rows a second. The price is the code in page.go, bucket.go and compaction.go, and that a row cannot be looked
// up by itself; nothing needs that, because counting goes on in memory. Badger does the rest: the write-ahead log, the atomic
// commit and the tables on disk.
//
// # Rows and digest
//
// A row is a key and a value; the store does not interpret them.
//
// The digest is the sum of rows.Sum(key, value) over all rows, modulo 2^64. It does not depend on their order. A commit adds the
// sums of the rows that it writes and subtracts those of the rows that it replaces. Badger cuts a damaged write-ahead log at
// the first bad byte and reports nothing. Of two such files it may keep the newer and lose the older one. The digest detects
// such losses.
//
// # Chosen input
//
// Keys contain the ids of callers, and clients may choose them. This is what chosen keys cost, compared with random keys:
//   - Buckets: nothing. The bucket of a row is chosen by SipHash under a key that is drawn when the store is made and stored
//     in it (bucketHash). With a public hash, 250,000 rows in one bucket made one commit wait for a compaction of all.
//   - Pages: a row is written when it is committed, and on average at most one and a half times more by compactions, whatever
//     its key.
//   - The map of keys that a compaction has seen is a Go map, which is seeded.
//   - The digest: rows whose sums are equal cost nothing. They hide only that a row was replaced by another one on the disk.
//     The digest detects accidents, not attacks.
//
// BenchmarkChosenInput measures it.
//
// # Files
//
// The directory of a store is accessible to its owner only (0700), and so are the files (0600) that Open or Close has seen:
// rows contain client addresses and API keys.
//
// The file FORMAT says in which format a store is written, and Open reads it first. A store of a newer version is rows.ErrNewer, and not
// damaged.
//
// The store protects Badger from two conditions that end the process. On a full disk Badger would die by SIGBUS, because it
// writes files through memory maps. Options.MinFree stops commits before the disk is full. If other programs fill it
// faster than that, tables on Linux already have their blocks, because these are reserved before the tables are mapped
// (reserve_linux.go). Damaged tables make Badger exit;
// Open reads and verifies them first. If a store fails, its owner moves it aside with Quarantine and rebuilds the rows from the log.
package store
