// Package tail follows log files as tail -F does, and continues after a restart where it stopped.
//
//	path ─▶ Follower ─▶ Sink.Text(whole lines, offset, next)
//	          │  ▲         one Sink for each log: a rotation begins a new one
//	          ▼  └── Sink.Acked
//	       Positions ─▶ DIR/positions.json, replaced whole and flushed to disk
//
// Its nouns: a Log is one file, under any name. It is identified by its device, its inode and its first line. So it is
// found again after logrotate has renamed it, and it is not confused with a new file that has the same inode. A Follower
// follows, one after the other, the logs that have had one path. Positions remembers how far each log was read.
//
// # Rotation
//
// When there is another file at the path, the old one is read until nothing was added to it for a while, because servers
// write to it until they get the signal to open the new one. After a restart, the old file is searched for under names that
// begin with the path (access.log.1, access.log-20240102). It is read to its end first, and so are others that were rotated
// meanwhile. Compressed files are not read (see ErrCompressed): keep one rotation uncompressed (delaycompress of logrotate). A
// log that is not found any more is reported as lost. A file that shrank (copytruncate) is a new log: the lines that were
// written between the last read and the truncation are lost. Rotation by renaming loses none.
//
// Libraries such as nxadm/tail do not do this: they know neither the exact offset of a line through rotations nor the
// identity of a file. Without these two a line cannot be counted once.
//
// # Chosen input
//
// Clients choose the lines of a log. This package reads only the first one for itself, up to 4 KiB, when it opens the log
// and while nothing is added to it, because the first line identifies the log. At most 16 logs of a path are remembered,
// and each of them is compared with each file in the directory. Clients do not choose the names or the inodes of files.
package tail
