// Package tail follows log files through rotations of all kinds, and continues after a restart where it stopped. Each line is given to the
// sink under one source and one offset, so that it counts once.
//
//	                    scan: which log is which file?
//	                        │ candidates
//	path ─▶ Follower ─▶ readers, one for each log that may get lines ─▶ Sink.Text(whole lines, offset, next)
//	                        │                                              │
//	                    Positions ◀── Sink.Acked ──────────────────────────┘
//	                        └─▶ DIR/positions.json, replaced whole and flushed to disk
//
// Its nouns: a log is what a server has written, under any name and in any file. A Follower follows all logs that are or were at one path. A
// reader reads one of them. A place is a position in a log and a checksum of up to 4 KiB before it. Positions remembers the places of the
// last 32 logs of each path, and more where rotations are that fast, or where a log begins with all of another one. A scan looks at all files
// and says which log each of them is.
//
// Libraries such as nxadm/tail do not do this: they know neither the exact offset of a line through rotations nor the identity of a
// file. Without these two a line cannot be counted once.
//
// # Identity
//
// A file is what it contains. Numbers of files come back, device numbers change with a reboot or a mount, and copies have other ones. So no
// number is remembered. Numbers tell files apart only while they are open.
//
// A file continues a known log if it has all that was read of it: if it agrees at all places up to the last one. Places are at each 16
// bytes up to 1 KiB, then at each power of two, where the log is acknowledged, and where reading was. Of several logs, the one counts
// with which it has most in common, and of equals the newest. It is a copy if another file has all of it, too: then the longer one is
// read, also if the shorter one is read already. A file that is read already under another name or number is watched for lines that only it has.
//
// What stands at the beginning may be a header that all logs have. So a log has no record, and is not read, until it has more than another
// one begins with: 16 bytes more are enough. If it has all that was read of a log that has no file now, it is that log; if it has all of one
// that has a file, it goes on where that one ends. A renamed file that never had more does not count. That is said when it is given up (WARN, and
// floodgate_ingest_undecided_logs_total): also of a log that got no line but the header. A record
// also says how many bytes made the log different from all others (own). With less in common, two files are not one log.
//
// A file that is unknown is a log of its own if it is at the path, or if it has the name of a rotated log and was last changed after the
// path was last looked at. Names are those of logrotate and others: access.log.1, access.log-20240102, access-20240102.log, each also compressed
// by gzip, bzip2, xz or zstd, in the directory of the log or one below it (olddir), and beside the target of a symbolic link. What was rotated
// before the first start is not read. A look during which names change may miss a file: the path counts as looked at only after a look at the
// same names before and after.
//
// # Order of durability
//
//  1. The record of a log, with a random source, is on disk before its first line is sent. While less than 4 KiB of a log are known on disk,
//     what a batch adds is on disk before that batch is sent. If the disk is full, a new log waits.
//  2. Lines of a source are sent in the order of their offsets. The analyzer skips those at or below the last offset that it has of the
//     source.
//  3. The acknowledged place on disk is never after what is in Kafka. It is saved each 250 ms. A log on this host is synced before that.
//
// So after kill -9 a log is found again by what was read of it, has the same source, and is read from a place at or before all that may be
// missing. What was sent before is sent again under the same offsets, and skipped. That holds as long as the analyzer remembers the source: 400
// days of log time, which is longer than any window.
//
// # Rotation
//
//   - Renamed: the log is watched until nobody has it open for writing, or until nothing was added for Follower.KeepOpen. Linux says the
//     former to the owner of the file and to processes with CAP_LEASE. Lines that come even later are found by the scan each 10 s.
//   - Copied and truncated: after each read, the bytes before it are compared with what was there. If they differ, the log goes on in its
//     copy, and the file is a new log.
//   - Compressed while ingest was down: the text is read from the compressed file. It is unpacked two or three times.
//   - Cut to an earlier state, or restored: only lines that are added count.
//
// # Bounds
//
// Lost without a report are lines that no file holds at any look: what a server writes to a log between the copy and the truncation of
// copytruncate, and a log that is made and deleted between two looks (250 ms) or while ingest is down. A look at all files during which names
// change may miss a file, and is repeated after 2 s: a log that is deleted by then counts as one between two looks. Reported (ERROR, and
// floodgate_ingest_lost_logs_total) is a log that was known and is gone before it was read to its end, one that was truncated without a copy,
// and a compressed file that cannot be read. TestAnyHistory and TestAnyStep have shown no other loss in random histories of renames, copies,
// truncations, gzip, deletions, remounts, stops and kills, each step of which may come between any two steps of a follower. They do not show
// bzip2, xz and zstd, symbolic links, several directories below, half lines, or full disks.
//
// Lost without a report are also lines that come to a renamed log after it is given up, if it is compressed or deleted before the next scan,
// or was deleted already. If more than 32 renamed logs are watched, the oldest are given up a second after their last lines. Lost is also a log
// that gets its new name just after that name was looked at, twice, if the set of names stays the same and no file events come.
//
// A report may be wrong: nothing is missing if a log was truncated, or deleted, after its last line was read; if the copy of a truncated log
// ends before the place of reading and has less than the first 4 KiB of the first log of all, or no more than the header; or if a renamed
// file takes longer than 2 s to get its new name.
//
// Identity needs content that differs, and a clock of the file system that does not go back. It fails for logs whose first 4 KiB are the same
// beyond a header, for a log cut to less than it takes to tell it from others (its first lines count again), for a copy with a new time of change
// of a log that is forgotten (it counts again), and for a log that has only a header until it is given up (later lines do not count).
//
// # positions.json
//
// An object with version (2) and logs, by path from the oldest to the newest. Each has path and name (of its file, without symbolic links),
// source (32 hexadecimal digits), acked and read (places: end in bytes, sum with 16 digits, the first 8 bytes of SHA-256), own (bytes), marks (a
// sum for each further place), modified (when the path was last looked at, by its file system), changed (the last change to the file) and
// finished. A further member, skipped, lists the paths of which nothing counts that was there at the first look (Follower.FromEnd). A path
// that is not UTF-8 is an object with the member base64. A file that cannot be read is refused with ErrPositions.
//
// # Chosen input
//
// Clients choose the lines of a log. Checksums are of SHA-256, so that no client can make two logs agree that do not. A follower remembers at
// most as many logs as there were rotations, and compares each with each file that has changed. Clients do not choose the names or the times of
// files.
package tail
