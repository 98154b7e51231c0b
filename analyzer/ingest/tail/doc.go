// Package tail follows log files as tail -F does, and knows after a restart where it was.
//
//	path ─▶ Follower ─▶ Sink.Text(whole lines, offset, next)
//	          │  ▲         one Sink for each log: a rotation begins a new one
//	          ▼  └── Sink.Acked
//	       Positions ─▶ DIR/positions.json, replaced whole and flushed to disk
//
// Its nouns: a Log is one file, whatever it is called now: it is known by its device, its inode and its first line, so that
// it is found again after logrotate has renamed it, and a new file is not taken for it if the inode is used again.
// A Follower follows the logs that have a path one after the other. Positions remembers how far each was read.
//
// # Rotation
//
// When the path has another file, the old one is read until it has been silent for a while, because servers write to it
// until they are told to open the new one. After a restart the old one is looked for under the path's name with something
// behind it (access.log.1, access.log-20240102), and read to its end first; so are others that were rotated meanwhile.
// Compressed files are not read: keep one rotation uncompressed (logrotate's delaycompress). What can't be found any more
// is reported as lost. A file that shrank (copytruncate) is a new log: what was written between the copy and the last look
// is lost, which is why rotation by renaming is better.
//
// nxadm/tail and its like were looked at and not taken: they know neither exact offsets of lines through rotations nor a
// file's identity, which is what counting once rests on.
package tail
