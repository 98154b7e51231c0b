// Package filewatch says when to look at files again: after changes in their directories, every 10 s, and when somebody asks. It
// reads no file.
//
//	events of the file system ──settle──┐
//	every 10 s ─────────────────────────┼──▶ look
//	reload (SIGHUP) ────────────────────┘
//
// It watches directories, because editors and Kubernetes replace files instead of writing into them. Events settle, because
// editors write in several steps. It also looks without an event, for file systems that send none. The function look compares
// what it reads with what it read before: a look is no change.
package filewatch
